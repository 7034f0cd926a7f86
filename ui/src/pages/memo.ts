// memo renders a component again only if a property has changed.
import { Component, createElement, type FunctionComponent } from 'preact'

export function memo<P extends object>(view: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const now = this.props as Record<string, unknown>, then = next as Record<string, unknown>
      return Object.keys({ ...now, ...then }).some((k) => now[k] !== then[k])
    }
    override render() {
      return createElement(view as FunctionComponent, this.props as object)
    }
  }
  return Memo as unknown as FunctionComponent<P>
}
