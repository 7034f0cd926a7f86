// Times: relative in tables, absolute on hover, in the browser's zone or in UTC.
import { useEffect, useState } from 'preact/hooks'
import { ago, span } from './format'

const stored = 'cantina.utc'
let utc = false
try {
  utc = localStorage.getItem(stored) === '1'
} catch {
  // a browser without storage begins with its own zone
}
const zoned = new Set<() => void>()
export const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone

export function switchZone(): void {
  utc = !utc
  try {
    localStorage.setItem(stored, utc ? '1' : '0')
  } catch {
    // it is forgotten with the page
  }
  zoned.forEach((f) => f())
}

export function useUTC(): boolean {
  const [now, set] = useState(utc)
  useEffect(() => {
    const f = () => set(utc)
    zoned.add(f)
    return () => void zoned.delete(f)
  }, [])
  return now
}

// absolute is 2026-11-29 21:15:03, with the date left out for today if short.
export function absolute(at: string, inUTC: boolean, short = false, fraction = false): string {
  const d = new Date(at)
  const p = (n: number, width = 2) => String(n).padStart(width, '0')
  const day = inUTC ? `${d.getUTCFullYear()}-${p(d.getUTCMonth() + 1)}-${p(d.getUTCDate())}` : `${d.getFullYear()}-${p(d.getMonth() + 1)}-${p(d.getDate())}`
  let time = inUTC ? `${p(d.getUTCHours())}:${p(d.getUTCMinutes())}:${p(d.getUTCSeconds())}` : `${p(d.getHours())}:${p(d.getMinutes())}:${p(d.getSeconds())}`
  if (fraction) time += '.' + p(d.getUTCMilliseconds(), 3)
  const today = new Date()
  const same = inUTC ? d.toISOString().slice(0, 10) === today.toISOString().slice(0, 10) : d.toDateString() === today.toDateString()
  return short && same ? time : `${day} ${time}`
}

const ticks = new Set<() => void>()
setInterval(() => document.hidden || ticks.forEach((f) => f()), 1000)

function useTick(text: () => string): string {
  const [, set] = useState('')
  useEffect(() => {
    const f = () => set(text())
    ticks.add(f)
    return () => void ticks.delete(f)
  })
  return text()
}

// Ago is a time before or after now.
export function Ago({ at }: { at: string | null | undefined }) {
  const inUTC = useUTC()
  const text = useTick(() => (at ? ago(Date.now() - Date.parse(at)) : '–'))
  if (!at) return <span class="dim">–</span>
  return <time dateTime={at} title={`${absolute(at, inUTC)} ${inUTC ? 'UTC' : localZone}`}>{text}</time>
}

// When is a point in time, written out.
export function When({ at, short = false, fraction = false }: { at: string | null | undefined; short?: boolean; fraction?: boolean }) {
  const inUTC = useUTC()
  if (!at) return <span class="dim">–</span>
  const relative = ago(Date.now() - Date.parse(at))
  return <time class="num" dateTime={at} title={`${relative} (${inUTC ? 'UTC' : localZone})`}>{absolute(at, inUTC, short, fraction)}</time>
}

// Took is the time between two points, or since the first.
export function Took({ from, to }: { from: string | null; to: string | null }) {
  const text = useTick(() => (from ? span((to ? Date.parse(to) : Date.now()) - Date.parse(from)) : '–'))
  return <span class="num">{text}</span>
}
