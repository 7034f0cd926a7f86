// What all pages of one resource share: its head, the reasons for its state, its events and last lines.
import type { ComponentChildren } from 'preact'
import { get } from '../api'
import { useData } from '../live'
import { Panel, State, Table } from '../parts'
import type { Tone } from '../format'
import { href } from '../route'
import { When } from '../time'
import type { Event, Explanation } from '../types'
import { LineText } from './line'

export function Head({ kind, name, state, tone, back, children }: {
  kind: string; name: ComponentChildren; state: string; tone?: Tone | undefined; back: [string, string]; children?: ComponentChildren
}) {
  return (
    <div class="head">
      <p class="crumbs"><a href={back[1]}>{back[0]}</a></p>
      <h1><span class="dim">{kind}</span> {name} {state && <State is={state} tone={tone} />}</h1>
      <div class="actions">{children}</div>
    </div>
  )
}

export function useExplain(kind: string, name: string, params: Record<string, string>, kinds: string[], match: (e: Event) => boolean) {
  return useData(`explain ${kind} ${name} ${JSON.stringify(params)}`, kinds,
    (s) => get<Explanation>(`/explain/${kind}/${encodeURIComponent(name)}`, params, s), match)
}

// Why lists the reasons when a resource is not as desired.
export function Why({ of: x }: { of: Explanation | undefined }) {
  if (!x || x.fine || x.reasons.length === 0) return null
  return (
    <Panel title="Why">
      <ul class="problems">
        {x.reasons.map((r, i) => (
          <li key={i} class="warn">
            <span class="glyph" aria-hidden="true">▲</span>
            <code class="chip">{r.code}</code>
            <span class="why">{r.text}{r.change && <><br /><span class="dim">remedy:</span> {r.change}</>}</span>
          </li>
        ))}
      </ul>
    </Panel>
  )
}

export function History({ of: x }: { of: Explanation | undefined }) {
  return (
    <Panel title="Events">
      <Table label="Events" rows={x && [...x.events].reverse()} id={(e) => e.position} empty="no events are kept" columns={[
        { name: 'time', cell: (e) => <When at={e.time} short /> },
        { name: 'subject', cell: (e) => e.subject },
        { name: 'change', wide: true, cell: (e) => <EventText of={e} /> },
      ]} />
    </Panel>
  )
}

// EventText is the row of an event in few words.
export function EventText({ of: e }: { of: Event }) {
  if (e.gone) return <State is="gone" tone="idle" />
  const i = e.instance, t = e.task, n = e.node, j = e.job, c = e.cell, s = e.service, h = e.schedule
  const text = (state: string, ...more: (string | false | undefined)[]) => <><State is={state} /> <span class="note">{more.filter(Boolean).join(' · ')}</span></>
  if (i) return text(i.state, i.cell, i.crash_reason || i.placement_error)
  if (t) return text(t.outcome || t.state, t.cell, t.reason || t.rejection)
  if (n) return text(n.state, n.cell, n.reason)
  if (j) return text(j.state, j.reason || j.nodes_error)
  if (c) return text(c.session, c.reason)
  if (s) return text(s.phase, `version ${s.version}`, `${s.instances} instances`, s.failure)
  if (h) return text(h.state, h.problem || h.note)
  return <span class="note">{e.text}</span>
}

export function LastLines({ of: x, params }: { of: Explanation | undefined; params: Record<string, string | number> }) {
  return (
    <Panel title="Output" extra={<a class="button" href={href('output', [], params)}>Follow output</a>}>
      {x && x.lines.length > 0
        ? <div class="lines" role="log" aria-label="Last lines of output" tabIndex={0}>{x.lines.map((l, i) => <LineText key={i} of={l} />)}</div>
        : <p class="empty">{x ? 'no output' : 'loading…'}</p>}
    </Panel>
  )
}
