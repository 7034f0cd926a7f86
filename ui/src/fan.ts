// Data of many servers: a read goes to all of them, and each row appears with its answer. The last good answer of a
// server stays, with its time, when a later one fails.
import { useEffect, useRef, useState } from 'preact/hooks'
import { ask, Problem, serverList, type ServerList } from './api'
import { natural } from './format'
import { deny } from './live'

export interface Of<T> { server: string; data?: T; at?: number; took: number; error?: { code: string; detail: string; hint?: string } }

const stored = 'cantina.servers'

// chosen are the servers that a person typed; none = those of the gateway. A link has them as a parameter.
export function chosen(): string[] {
  const given = /[?&]servers=([^&]*)/.exec(location.hash)?.[1]
  try {
    if (given !== undefined) sessionStorage.setItem(stored, decodeURIComponent(given))
    return split(sessionStorage.getItem(stored) ?? '')
  } catch {
    return split(given ? decodeURIComponent(given) : '') // a browser without storage
  }
}

export function choose(servers: string[]): void {
  try {
    sessionStorage.setItem(stored, servers.join(','))
  } catch {
    // it is forgotten with the page
  }
}

export const split = (text: string): string[] => [...new Set(text.split(/[\s,]+/).filter(Boolean))]

let gateway: Promise<ServerList> | null = null
export function useServerList(): ServerList | undefined {
  const [list, set] = useState<ServerList>()
  useEffect(() => {
    gateway ??= serverList()
    gateway.then(set, (e: unknown) => {
      gateway = null
      if (e instanceof Problem && e.code === 'unauthenticated') deny(e)
    })
  }, [])
  return list
}

const pause = 5_000 // ms between two reads

// seen has the rows of the pages that were open last, so that a server that fails meanwhile keeps its last data.
const seen = new Map<string, Map<string, Of<unknown>>>()
function rowsOf<T>(key: string): Map<string, Of<T>> {
  const rows = seen.get(key) ?? new Map<string, Of<unknown>>()
  seen.delete(key)
  seen.set(key, rows)
  if (seen.size > 20) seen.delete(seen.keys().next().value!)
  return rows as Map<string, Of<T>>
}

// useMany reads a path of all servers again and again. It returns a row for each server that was asked, in natural
// order of names, and whether the first read is complete.
export function useMany<T>(path: string, params: Record<string, string | number | boolean> = {}): { rows: Of<T>[]; complete: boolean; error: Problem | null } {
  const servers = chosen()
  const key = path + JSON.stringify(params) + servers.join()
  const rows = useRef(new Map<string, Of<T>>())
  const [state, set] = useState<{ key: string; complete: boolean; error: Problem | null; n: number }>({ key, complete: false, error: null, n: 0 })
  useEffect(() => {
    const over = new AbortController()
    let timer = 0, frame = 0
    rows.current = rowsOf(key)
    if (rows.current.size > 0) set((old) => ({ key, complete: true, error: null, n: old.n + 1 }))
    let complete = rows.current.size > 0
    const show = (error: Problem | null = null) => {
      cancelAnimationFrame(frame)
      frame = requestAnimationFrame(() => set((old) => ({ key, complete, error, n: old.n + 1 })))
    }
    const run = async () => {
      const begin = Date.now()
      let error: Problem | null = null
      try {
        for await (const a of ask<T>(path, params, servers, over.signal)) {
          const old = rows.current.get(a.server)
          rows.current.set(a.server, a.error
            ? { server: a.server, data: old?.data, at: old?.at, took: a.took_ms, error: a.error }
            : { server: a.server, data: a.body, at: Date.now(), took: a.took_ms })
          show()
        }
        complete = true
      } catch (e) {
        if (over.signal.aborted) return
        error = e instanceof Problem ? e : new Problem('internal', String(e))
        if (error.code === 'unauthenticated') deny(error)
      }
      show(error)
      timer = window.setTimeout(run, document.hidden ? 10 * pause : Math.max(pause, 3 * (Date.now() - begin)))
    }
    void run()
    return () => {
      over.abort()
      clearTimeout(timer)
      cancelAnimationFrame(frame)
    }
  }, [key])
  if (state.key !== key) return { rows: [], complete: false, error: null }
  return { rows: [...rows.current.values()].sort((a, b) => natural(a.server, b.server)), complete: state.complete, error: state.error }
}

// Value is one value of a field and the servers that have it.
export interface Value { text: string; servers: string[] }

// differences returns the fields in which servers disagree, each with its values, the most frequent first.
export function differences(of: { server: string; value: unknown }[]): { field: string; values: Value[] }[] {
  const fields = new Map<string, Map<string, string[]>>()
  const flat = of.map(({ server, value }) => ({ server, fields: flatten(value) }))
  for (const { fields: f } of flat) for (const name of f.keys()) fields.set(name, new Map())
  for (const [name, values] of fields) {
    for (const { server, fields: f } of flat) {
      const text = f.get(name) ?? '(not set)'
      values.set(text, [...(values.get(text) ?? []), server])
    }
  }
  return [...fields].filter(([, v]) => v.size > 1).sort(([a], [b]) => natural(a, b)).map(([field, v]) => ({
    field, values: [...v].map(([text, servers]) => ({ text, servers })).sort((a, b) => b.servers.length - a.servers.length || natural(a.text, b.text)),
  }))
}

// flatten names each value by its path: workload.run.args[2].
function flatten(x: unknown, path = '', into = new Map<string, string>()): Map<string, string> {
  if (x && typeof x === 'object' && Object.keys(x).length > 0) {
    for (const [k, v] of Object.entries(x)) flatten(v, Array.isArray(x) ? `${path}[${k}]` : path ? `${path}.${k}` : k, into)
  } else into.set(path, typeof x === 'string' ? x : JSON.stringify(x))
  return into
}
