// Calls of /v1 on the server that served the page, or through it on one of many servers. No other address is called.
import { currentServer } from './route'

// The key of `cantina ui` is for one server process. It is kept for all tabs of this origin, so that a
// link opens in any tab; the server forgets it when it ends.
const stored = 'cantina.key'

// takeKey moves the key from the address bar into the store, and reports whether there was one.
export function takeKey(): boolean {
  const found = /^#key=([\w-]+)$/.exec(location.hash)
  if (!found) return false
  try {
    localStorage.setItem(stored, found[1]!)
  } catch {
    // a browser without storage keeps it for this page alone
  }
  held = found[1]!
  history.replaceState(null, '', location.pathname + '#/')
  return true
}
let held = ''

function headers(more: Record<string, string> = {}): Record<string, string> {
  let key = held
  try {
    key = localStorage.getItem(stored) ?? held
  } catch {
    // as above
  }
  return key ? { Authorization: `Bearer ${key}`, ...more } : more
}

// Problem is an error of the server, or no_connection.
export class Problem extends Error {
  constructor(
    readonly code: string, message: string, readonly hint = '', readonly status = 0, readonly leader = '', readonly requestID = '',
  ) {
    super(message)
  }
}

type Value = string | number | boolean | string[] | undefined
export type Params = Record<string, Value>

function address(path: string, params: Params): string {
  const server = currentServer()
  return (server ? `/at/${encodeURIComponent(server)}/v1` : '/v1') + path + query(params)
}

function query(params: Params): string {
  const q = new URLSearchParams()
  for (const [k, v] of Object.entries(params)) {
    if (Array.isArray(v)) v.forEach((x) => q.append(k, x))
    else if (v !== undefined && v !== '' && v !== false) q.set(k, String(v))
  }
  const text = q.toString()
  return text ? '?' + text : ''
}

async function request(method: string, url: string, init: RequestInit): Promise<Response> {
  let r: Response
  try {
    r = await fetch(url, { method, cache: 'no-store', credentials: 'same-origin', redirect: 'error', ...init })
  } catch (e) {
    if (init.signal?.aborted) throw e
    throw new Problem('no_connection', 'The server does not answer.', 'Check that it runs: cantina status')
  }
  if (r.ok) return r
  const p = (await r.json().catch(() => ({}))) as Record<string, string>
  throw new Problem(p.code ?? 'http', p.detail ?? `HTTP status ${r.status}`, p.hint, r.status, p.leader, p.request_id)
}

export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  const r = await request('GET', address(path, params), { headers: headers(), signal: signal ?? null })
  return (await r.json()) as T
}

// send makes a writing call. The key makes it happen at most once; revision, if given, is the one that
// the user saw: the server refuses the call if the resource has changed since.
export async function send<T>(method: 'POST' | 'PUT' | 'DELETE', path: string, body: unknown, revision = ''): Promise<T> {
  const h = headers({ 'Content-Type': 'application/json', 'Idempotency-Key': newID() })
  if (revision && revision !== '0') h['If-Match'] = revision
  const r = await request(method, address(path, {}), { headers: h, body: method === 'DELETE' ? null : JSON.stringify(body) })
  return (await r.json()) as T
}

function newID(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('')
}

// all reads the pages of a list, up to most items.
export async function all<T>(path: string, field: string, params: Params, most: number, signal?: AbortSignal): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = []
  let cursor = ''
  for (;;) {
    const page = await get<Record<string, unknown> & { listing: { next: string } }>(path, { ...params, cursor, limit: Math.min(1000, most) }, signal)
    items.push(...(page[field] as T[]))
    cursor = page.listing.next
    if (!cursor || items.length >= most) return { items, more: cursor !== '' }
  }
}

// stream reads JSON lines until the server or the signal ends them.
export async function* stream<T>(path: string, params: Params, signal: AbortSignal): AsyncGenerator<T> {
  for await (const record of lines<{ error?: { code?: string; hint?: string }; detail?: string }>(address(path, params), signal)) {
    if (record.error) throw new Problem(record.error.code ?? 'internal', record.detail ?? 'The stream ended.', record.error.hint)
    yield record as T
  }
}

// Answer is what one of many servers answered to a read.
export interface Answer<T> {
  server: string; took_ms: number; body?: T; error?: { code: string; detail: string; hint?: string; leader?: string }
}

// ask sends a read to many servers, and yields the answers as they arrive; none of servers = the list of the gateway.
export const ask = <T>(path: string, params: Params, servers: string[], signal: AbortSignal): AsyncGenerator<Answer<T>> =>
  lines<Answer<T>>('/many/v1' + path + query({ ...params, servers: servers.join(',') }), signal)

// list has the servers of the gateway, and the rules for others.
export interface ServerList { servers: string[]; allow: string; build: string; deadline_ms: number }
export const serverList = async (): Promise<ServerList> =>
  (await (await request('GET', '/many/servers', { headers: headers() })).json()) as ServerList

async function* lines<T>(url: string, signal: AbortSignal): AsyncGenerator<T> {
  const r = await request('GET', url, { headers: headers({ Accept: 'application/jsonl' }), signal })
  const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    const parts = (rest + value).split('\n')
    rest = parts.pop()!
    for (const p of parts) {
      if (p) yield JSON.parse(p) as T
    }
  }
}

// download saves the original bytes of an output.
export async function download(params: Params, name: string): Promise<void> {
  const r = await request('GET', address('/output', { ...params, raw: true }), { headers: headers() })
  const url = URL.createObjectURL(new Blob([await r.arrayBuffer()], { type: 'application/octet-stream' }))
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}
