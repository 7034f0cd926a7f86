// Data that stays fresh: a page loads its lists, and the event stream says when to load them again.
// Lists are the truth and events only hurry it, so a gap or a lost connection loses nothing.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { Problem, stream } from './api'
import { currentServer, many } from './route'
import type { Event, EventRecord } from './types'

export type Link = 'connecting' | 'live' | 'offline' | 'denied' | 'standby'

type Listener = { kinds: string[]; changed: (e: Event | null) => void }
const listeners = new Set<Listener>()
const watchers = new Set<(l: Link, p: Problem | null) => void>()
let state: Link = 'connecting'
let problem: Problem | null = null
let running: AbortController | null = null
let wanted = ''
let position = ''
let followed = '' // the server of the position

const kindsOf = () => [...new Set([...listeners].flatMap((l) => l.kinds))].sort()

function become(next: Link, p: Problem | null = null): void {
  if (next === state && p?.message === problem?.message) return
  state = next
  problem = p
  watchers.forEach((w) => w(next, p))
}

// A hidden tab has no stream: a browser allows few connections to one server.
function adjust(): void {
  const server = currentServer()
  const kinds = document.hidden || (many && !server) ? '' : kindsOf().join(',')
  const want = kinds && `${server} ${kinds}`
  if (want === wanted && (running || !kinds)) return
  if (server !== followed) {
    followed = server
    position = ''
    become('connecting')
  }
  wanted = want
  running?.abort()
  running = null
  if (kinds) {
    running = new AbortController()
    void follow(kinds.split(','), running.signal)
  }
}

async function follow(kinds: string[], signal: AbortSignal): Promise<void> {
  for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 8000)) {
    let failed: Problem | null = null
    try {
      // Without a position the lists are loaded once the stream is open, so that no change is missed.
      for await (const r of stream<EventRecord>('/events', { since: position || 'tail', kind: kinds }, signal)) {
        if (state !== 'live' || r.gap) tell(null)
        become('live')
        wait = 500
        position = r.position || position
        if (r.event) tell(r.event)
      }
    } catch (e) {
      if (signal.aborted) return
      failed = e instanceof Problem ? e : new Problem('no_connection', 'The connection to the server was lost.')
    }
    if (signal.aborted) return
    const code = failed?.code
    become(code === 'unauthenticated' || code === 'not_allowed' ? 'denied' : code === 'not_leader' ? 'standby' : 'offline', failed)
    if (code && code !== 'no_connection') position = ''
    await new Promise((done) => setTimeout(done, wait))
  }
}

function tell(e: Event | null): void {
  listeners.forEach((l) => {
    if (!e || l.kinds.includes(e.kind)) l.changed(e)
  })
}

document.addEventListener('visibilitychange', adjust)
addEventListener('hashchange', () => queueMicrotask(adjust))

// deny shows that the key is not valid, which another call found out.
export const deny = (p: Problem): void => become('denied', p)

function listen(l: Listener): () => void {
  listeners.add(l)
  queueMicrotask(adjust)
  return () => {
    listeners.delete(l)
    queueMicrotask(adjust)
  }
}

export function useLink(): { link: Link; problem: Problem | null } {
  const [now, set] = useState({ link: state, problem })
  useEffect(() => {
    const w = (link: Link, p: Problem | null) => set({ link, problem: p })
    watchers.add(w)
    w(state, problem)
    return () => void watchers.delete(w)
  }, [])
  return now
}

// useEvents calls changed with each event of some kinds; null = anything may have changed.
export function useEvents(kinds: string[], changed: (e: Event | null) => void): void {
  const newest = useRef(changed)
  newest.current = changed
  useEffect(() => listen({ kinds, changed: (e) => newest.current(e) }), [kinds.join()])
}

export interface Loaded<T> { data: T | undefined; error: Problem | null; refresh: () => void }

const soonest = 400 // ms between two loads
const latest = 20_000 // without an event

// useData loads when key changes, when an event of kinds (and of match) arrives, and every 20 s. A load
// that took long is repeated less often.
export function useData<T>(key: string, kinds: string[], load: (s: AbortSignal) => Promise<T>, match?: (e: Event) => boolean): Loaded<T> {
  const [got, set] = useState<{ key: string; data?: T; error: Problem | null }>({ key, error: null })
  const again = useRef<() => void>(() => {})
  const newest = useRef({ load, match })
  newest.current = { load, match }
  useEffect(() => {
    const over = new AbortController()
    let timer = 0, last = 0, took = 0, busy = false, dirty = false
    const later = (ms: number) => {
      clearTimeout(timer)
      timer = window.setTimeout(run, ms)
    }
    const run = async () => {
      if (busy) {
        dirty = true
        return
      }
      busy = true
      dirty = false
      last = Date.now()
      try {
        const data = await newest.current.load(over.signal)
        set({ key, data, error: null })
      } catch (e) {
        if (over.signal.aborted) return
        const error = e instanceof Problem ? e : new Problem('internal', String(e))
        const keep = error.code === 'no_connection' || error.code === 'not_leader' || error.code === 'busy'
        set((old) => ({ key, data: keep && old.key === key ? old.data : undefined, error }) as typeof old)
      }
      busy = false
      took = Date.now() - last
      later(dirty ? Math.max(soonest, took * 4) : document.hidden ? latest * 10 : latest)
    }
    again.current = () => later(Math.max(0, last + Math.max(soonest, took * 4) - Date.now()))
    void run()
    return () => {
      over.abort()
      clearTimeout(timer)
    }
  }, [key])
  useEvents(kinds, (e) => {
    if (!e || !newest.current.match || newest.current.match(e)) again.current()
  })
  const refresh = useCallback(() => again.current(), [])
  return { data: got.key === key ? got.data : undefined, error: got.key === key ? got.error : null, refresh }
}
