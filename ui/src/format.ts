// Numbers, times and states as text.

export type Tone = 'ok' | 'busy' | 'warn' | 'bad' | 'idle'

const tones: Record<string, Tone> = {
  // instances
  RUNNING: 'ok', CLAIMED: 'busy', UNCLAIMED: 'warn', CRASHED: 'bad',
  // tasks and their outcomes
  PENDING: 'busy', COMPLETED: 'ok', RESOLVING: 'busy', succeeded: 'ok', cancelled: 'idle', lost: 'bad',
  // jobs and nodes
  waiting: 'busy', running: 'busy', paused: 'warn', disabled: 'idle', done: 'ok', failed: 'bad', empty: 'idle',
  invalid: 'bad', removed: 'idle', ready: 'idle', backoff: 'warn', blocked: 'idle', stranded: 'warn', avoided: 'idle', absent: 'idle',
  // services
  steady: 'ok', 'rolling out': 'busy', 'rolling back': 'warn', 'rollout failed': 'bad',
  // schedules
  undecided: 'warn', 'catching up': 'busy', 'clock behind': 'warn', broken: 'bad', started: 'ok', skipped: 'warn', sent: 'ok', reset: 'idle',
  // cells
  HEALTHY: 'ok', NEW: 'busy', UNHEALTHY: 'warn', MUST_DIE: 'bad', LOST: 'bad', LEFT: 'idle', FOREIGN: 'warn',
}
export const toneOf = (state: string): Tone => tones[state] ?? 'idle'

// Schedules use two words of jobs in another sense.
export const scheduleTone = (state: string): Tone => (state === 'waiting' ? 'ok' : toneOf(state))

export const plural = (n: number, one: string, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`
export const number = (n: number) => n.toLocaleString('en')

// span is a duration in at most two units: 3m 20s.
export function span(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000))
  if (ms < 1000) return ms <= 0 ? '0s' : `${Math.max(1, Math.round(ms))}ms`
  const units: [string, number][] = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]]
  const i = units.findIndex(([, n]) => s >= n)
  const [u, n] = units[i] ?? ['s', 1]
  const next = units[i + 1]
  const rest = next ? Math.floor((s % n) / next[1]) : 0
  return `${Math.floor(s / n)}${u}` + (next && rest ? ` ${rest}${next[0]}` : '')
}

// ago is short, for tables: 3s, 4m, 2h, 5d.
export function ago(ms: number): string {
  const s = Math.round(Math.abs(ms) / 1000)
  if (s < 1) return 'now'
  const text = s < 60 ? `${s}s` : s < 3600 ? `${Math.floor(s / 60)}m` : s < 172800 ? `${Math.floor(s / 3600)}h` : `${Math.floor(s / 86400)}d`
  return ms >= 0 ? `${text} ago` : `in ${text}`
}

// seconds reads a duration of the API: "12.5s".
export const seconds = (d: string | null) => (d ? parseFloat(d) * 1000 : 0)

const resources: Record<string, string> = { memory_mb: 'memory', disk_mb: 'disk', cpu_milli: 'processors', containers: 'containers' }
export const resourceName = (key: string) => resources[key] ?? key

export function amount(key: string, n: number): string {
  if (key === 'cpu_milli') return (n / 1000).toLocaleString('en', { maximumFractionDigits: 2 })
  if (key.endsWith('_mb')) return n >= 10240 ? `${(n / 1024).toLocaleString('en', { maximumFractionDigits: 1 })} Gi` : `${number(n)} Mi`
  return number(n)
}

// natural sorts node2 before node10.
const order = new Intl.Collator('en', { numeric: true })
export const natural = (a: string, b: string) => order.compare(a, b)
