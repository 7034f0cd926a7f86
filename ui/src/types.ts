// The messages of /v1, as far as the pages read them: names and units as in the definition
// (wire/proto/cantina/v1/api.proto).

export interface Listing { next: string; revision: string; position: string }

export interface Service {
  domain: string; name: string; instances: number; running: number; routable: number; crashed: number
  phase: string; version: number; removed: boolean; exclusive: boolean; applied: string | null; revision: string
  versions: Version[]; failure: string; healthy: number; stopping: number; unconfirmed: number
}
export interface Version { number: number; good: boolean; workload: unknown; annotation: string; low: number; high: number }

export interface Instance {
  domain: string; service: string; index: number; state: string; presence: string; instance: string; cell: string
  version: number; address: string; ports: { name: string; port: number }[]; routable: boolean; zone: string
  crash_count: number; crash_reason: string; placement_error: string; since: string | null; retiring: boolean
  quarantined: boolean; finished: boolean; orphan: boolean; unconfirmed_reason: string; condition: string
  stopping: boolean; stop_by: string | null; last_crash: string; last_crash_cell: string; last_crash_time: string | null
}

export interface Task {
  id: string; uid: string; domain: string; name: string; state: string; outcome: string; cell: string; reason: string
  exit_code: number; signal: number; oom: boolean; result: string; result_json: unknown; may_still_run: boolean
  rejections: number; rejection: string; created: string | null; started: string | null; ended: string | null
  resolution: string; successor: string; revision: string; container: string; definition: unknown
  unconfirmed_reason: string; condition: string; output_lost: string; callback_state: string; callback_error: string
}

export interface Counts {
  total: number; done: number; failed: number; running: number; ready: number; backoff: number; blocked: number
  avoided: number; disabled: number; stranded: number
}
export interface Job {
  name: string; uid: string; domain: string; owner: string; state: string; counts: Counts | null; enabled: boolean
  paused: boolean; priority: number; reason: string; nodes_error: string; errors: string[]; created: string | null
  ended: string | null; revision: string; definition: JobDefinition | null
}
export interface JobDefinition {
  levels: string[]; level: string; nodes_of: string; depends_on: string[]; after: string[]; policy: string; cell_order: string; retries: number; workload: unknown
  resources: Record<string, { take: Record<string, number>; limit: Record<string, number> }>
}
export interface JobNode {
  domain: string; job: string; node: string; state: string; cell: string; errors: number; exit_code: number; signal: number
  reason: string; time: string | null; next: string | null; invocation: string; path: string[]; data: unknown
  losses: number; since: string | null; unconfirmed_reason: string; condition: string
}

export interface Schedule {
  domain: string; name: string; cron: string; timezone: string; gap: string; fold: string; words: string
  starts: string; state: string; overlap: string; misfire: string; next: string | null; last: string | null
  cursor: string | null; fired: string; skipped: string; pending: { at: string; by: string }[]; live: string[]
  problem: string; revision: string; history: ScheduleEntry[]; upcoming: ScheduleTime[]; note: string
  signal: { service: string; signal: string } | null
}
export interface ScheduleEntry {
  at: string; until: string | null; count: number; what: string; text: string; by: string; run: string
  decided: string | null; outcome: string
}
export interface ScheduleTime { at: string; local: string; mark: string; skip: string }

export interface Cell {
  name: string; proc: string; address: string; zone: string; host: string; session: string; since: string | null
  reason: string; reported: boolean; eligible: boolean; dead_in: string | null; unavailable: string; draining: boolean
  capacity: Record<string, number>; free: Record<string, number>; instances: number; tasks: number; batch: number
  labels: Record<string, string>; taints: string[]; tags: string[]; isolation: string[]; build: string; volumes: string[]
  drain: Drain | null; aftermath: string; unknown: string[]
}
export interface Drain {
  reason: string; by: string; since: string | null; until: string | null; ended: string | null; waits: string[]; unknown: string
}

export interface Status {
  cluster: string; leader: string; term: string; build: string; since: string | null; revision: string
  waiting: boolean; waiting_for: string[]; longest: string | null
  held: { what: string; reason: string; cell: string; longest: string | null }[]; held_more: number
  counts: Record<string, number>; warnings: string[]; quarantined: number; cluster_id: string
  domains: { name: string; fresh: boolean; expires: string | null }[]
  rollouts: { domain: string; service: string; phase: string; version: number; healthy: number; instances: number; failure: string }[]
}

export interface Event {
  revision: string; position: string; time: string; kind: string; domain: string; subject: string; gone: boolean
  text: string; service: Service | null; instance: Instance | null; task: Task | null; job: Job | null
  node: JobNode | null; cell: Cell | null; schedule: Schedule | null
}
export interface EventRecord { event: Event | null; gap: { after: string; before: string } | null; position: string }

export interface Line {
  time: string; source: string; container: string; cell: string; stream: string; text: string; raw: string
  unterminated: boolean; continues: boolean; gap: { bytes?: string; lines?: string } | null; position: string
}
export interface OutputPage { lines: Line[]; next: string; previous: string; missing: string[]; more: boolean }
export interface OutputBatch { lines: Line[]; cursor: string; missing: string[]; end: boolean }

export interface Explanation {
  state: string; wanted: string; fine: boolean; events: Event[]; lines: Line[]
  reasons: { code: string; text: string; resource: string; need: number; have: number; change: string; longest: string | null }[]
}
