// Deep links: #/service/shop/web?state=CRASHED. Every part is encoded, so names may have any character.
import { useEffect, useState } from 'preact/hooks'

export interface Route { page: string; rest: string[]; params: URLSearchParams; text: string }

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  const parts = path.split('/').map((p) => {
    try {
      return decodeURIComponent(p)
    } catch {
      return p
    }
  })
  return { page: parts[0] || 'overview', rest: parts.slice(1), params: new URLSearchParams(query), text: hash }
}

export function href(page: string, rest: (string | number)[] = [], params: Record<string, string | number | undefined> = {}): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== '') q.set(k, String(v))
  const text = q.toString()
  return '#/' + [page, ...rest].map((p) => encodeURIComponent(p)).join('/') + (text ? '?' + text : '')
}

// setParam changes one parameter of the address without a new entry in the history.
export function setParam(name: string, value: string): void {
  const r = parse(location.hash)
  if (value) r.params.set(name, value)
  else r.params.delete(name)
  history.replaceState(null, '', href(r.page, r.rest, Object.fromEntries(r.params)))
  dispatchEvent(new HashChangeEvent('hashchange'))
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash))
  useEffect(() => {
    const on = () => set(parse(location.hash))
    addEventListener('hashchange', on)
    return () => removeEventListener('hashchange', on)
  }, [])
  return route
}
