// Deep links: #/service/shop/web?state=CRASHED. Every part is encoded, so names may have any character. The page of
// many servers has #/at/HOST:PORT/service/shop/web for one of them, and #/services for all.
import { useEffect, useState } from 'preact/hooks'

export interface Route { server: string; page: string; rest: string[]; params: URLSearchParams; text: string }

// many reports whether this page is of many servers: `cantina ui --servers` serves it at another path.
export const many = location.pathname.includes('/ui/many/')

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2)
  let parts = path.split('/').map((p) => {
    try {
      return decodeURIComponent(p)
    } catch {
      return p
    }
  })
  let server = ''
  if (many && parts[0] === 'at') {
    server = parts[1] ?? ''
    parts = parts.slice(2)
  }
  return { server, page: parts[0] || 'overview', rest: parts.slice(1), params: new URLSearchParams(query), text: hash }
}

// here is the server of the address; empty = the one that served this page, or all of many.
let here = parse(location.hash).server
addEventListener('hashchange', () => {
  here = parse(location.hash).server
})
export const currentServer = (): string => here

export function href(
  page: string, rest: (string | number)[] = [], params: Record<string, string | number | undefined> = {}, server: string = here,
): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== '') q.set(k, String(v))
  const text = q.toString()
  return '#/' + [...(server ? ['at', server] : []), page, ...rest].map((p) => encodeURIComponent(p)).join('/') + (text ? '?' + text : '')
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
