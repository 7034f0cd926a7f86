// The pages over all of many servers: the servers themselves, lists of their resources, and a job that several have.
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Listing } from '../types'
import { choose, chosen, differences, split, useMany, useServerList, type Of } from '../fan'
import { natural, number, plural, span } from '../format'
import { Cells, Schedules, Services, Tasks } from '../lists'
import { Bar, Failure, Facts, Filter, kindsOfNode, Legend, matches, Panel, State, Table, type NodeKind } from '../parts'
import { href, setParam, useRoute } from '../route'
import { Ago, Took } from '../time'
import type { Cell, Counts, Job, Schedule, Service, Status, Task } from '../types'

const most = 1000 // resources of one server in a list

// stateOf is how a server answered, in a word.
function stateOf(x: Of<unknown>): [string, 'ok' | 'warn' | 'bad'] {
  if (!x.error) return ['ok', 'ok']
  const words: Record<string, string> = { timeout: 'no answer', no_connection: 'down', other_version: 'other version', not_leader: 'standby' }
  return [words[x.error.code] ?? x.error.code.replaceAll('_', ' '), x.error.code === 'not_leader' ? 'warn' : 'bad']
}

// age is how old the data of a server is that failed since.
function Age({ of: x }: { of: Of<unknown> }) {
  if (!x.at) return <span class="dim">no data</span>
  return x.error ? <b class="warn-text"><Ago at={new Date(x.at).toISOString()} /></b> : <Ago at={new Date(x.at).toISOString()} />
}

// Missing names the servers whose data a list lacks, or has from before.
function Missing({ rows, bad = rows.filter((x) => x.error) }: { rows: Of<unknown>[]; bad?: Of<unknown>[] }) {
  if (bad.length === 0) return null
  const name = (x: Of<unknown>) => `${x.server} (${stateOf(x)[0]}${x.at ? `, data ${span(Date.now() - x.at)} old` : ''})`
  return (
    <p class="notice warn" role="status">
      <b>{plural(bad.length, 'server')} of {rows.length} did not answer:</b> {bad.slice(0, 10).map(name).join(', ')}{bad.length > 10 && ` and ${bad.length - 10} more`}
    </p>
  )
}

export function Servers() {
  const list = useServerList()
  const { rows, complete, error } = useMany<{ status: Status }>('/status')
  const q = useRoute().params.get('q') ?? ''
  const builds = new Map<string, number>()
  for (const x of rows) if (x.data) builds.set(x.data.status.build, (builds.get(x.data.status.build) ?? 0) + 1)
  const common = [...builds].sort((a, b) => b[1] - a[1])[0]?.[0]
  const count = (x: Of<{ status: Status }>, name: string) => x.data?.status.counts[name] ?? 0
  const sum = (name: string) => rows.reduce((n, x) => n + count(x, name), 0)
  const good = rows.filter((x) => !x.error).length
  const note = (x: Of<{ status: Status }>) => [
    x.error && `${x.error.detail}${x.error.hint ? `; ${x.error.hint}` : ''}`,
    x.data && x.data.status.build !== common && `version ${x.data.status.build}; most have ${common}`,
    x.data?.status.waiting && 'initial wait', ...(x.data?.status.warnings ?? []),
  ].filter(Boolean).join(' · ')
  const shown = rows.filter((x) => matches(`${x.server} ${stateOf(x)[0]} ${note(x)}`, q))
    .sort((a, b) => Number(!a.error && !note(a)) - Number(!b.error && !note(b)) || natural(a.server, b.server))
  return (
    <>
      <h1 class="sr">Servers</h1>
      {error && <Failure of={error} />}
      <div class="tiles">
        <Tile name="servers" value={`${good}/${list && chosen().length === 0 ? list.servers.length : rows.length}`} text="answer" bad={complete && good < rows.length} />
        <Tile name="cells" value={`${number(sum('cells_healthy'))}/${number(sum('cells'))}`} text="healthy" bad={sum('cells_healthy') < sum('cells')} />
        <Tile name="instances" value={`${number(sum('running'))}/${number(sum('instances'))}`} text="running" bad={sum('running') < sum('instances')} />
        <Tile name="jobs" value={number(sum('jobs'))} text={`${plural(sum('batch_running'), 'batch task')} running`} />
        <Tile name="tasks" value={number(sum('tasks_running') + sum('tasks_pending'))} text={`active, ${number(sum('tasks_lost'))} lost`} bad={sum('tasks_lost') > 0} />
      </div>
      <Panel title="Servers" count={q ? `${shown.length} of ${rows.length}` : rows.length}
        extra={<><ServerForm /><Filter label="Filter servers" value={q} set={(v) => setParam('q', v)} /></>}>
        <Table label="Servers" rows={complete || rows.length ? shown : undefined} empty="no servers" id={(x) => x.server} most={2000} columns={[
          { name: 'server', cell: (x) => <a class="name" href={href('overview', [], {}, x.server)}>{x.server}</a> },
          { name: 'state', cell: (x) => <State is={stateOf(x)[0]} tone={stateOf(x)[1]} /> },
          { name: 'cells', num: true, cell: (x) => x.data ? <Of2 a={count(x, 'cells_healthy')} b={count(x, 'cells')} /> : '–' },
          { name: 'instances', num: true, cell: (x) => x.data ? <Of2 a={count(x, 'running')} b={count(x, 'instances')} /> : '–' },
          { name: 'jobs', num: true, cell: (x) => x.data ? number(count(x, 'jobs')) : '–' },
          { name: 'batch running', num: true, cell: (x) => x.data ? number(count(x, 'batch_running')) : '–' },
          { name: 'cluster', cell: (x) => x.data?.status.cluster ?? '–' },
          { name: 'version', cell: (x) => x.data ? <span class={x.data.status.build === common ? '' : 'warn-text'}>{x.data.status.build}</span> : '–' },
          { name: 'data', cell: (x) => <Age of={x} /> },
          { name: 'took', num: true, cell: (x) => `${number(x.took)} ms` },
          { name: 'note', wide: true, cell: (x) => <span class="note">{note(x)}</span> },
        ]} />
        {!complete && <p class="empty" aria-live="polite">waiting for the other servers…</p>}
      </Panel>
    </>
  )
}

function Of2({ a, b }: { a: number; b: number }) {
  return <><b class={a < b ? 'warn-text' : ''}>{number(a)}</b><span class="dim">/{number(b)}</span></>
}

function Tile({ name, value, text, bad }: { name: string; value: string; text: string; bad?: boolean }) {
  return (
    <div class={'tile' + (bad ? ' bad' : '')}>
      <span class="tile-name">{name}</span><span class="tile-value num">{value}</span><span class="tile-text">{text}</span>
    </div>
  )
}

// ServerForm reads other servers than those of the gateway, as far as it permits them.
function ServerForm() {
  const list = useServerList()
  const [text, setText] = useState(chosen().join(' '))
  if (!list) return null
  const go = (servers: string[]) => {
    choose(servers)
    location.hash = href('overview', [], { servers: servers.join(',') || undefined })
    location.reload()
  }
  return (
    <form class="servers" onSubmit={(e) => { e.preventDefault(); go(split(text)) }}>
      <input type="text" size={36} aria-label="Servers" placeholder={list.allow ? 'host:port host:port …' : 'some of the list'} value={text} onInput={(e) => setText(e.currentTarget.value)}
        title={`Servers to read: of the list${list.allow ? `, or permitted: ${list.allow}` : ''}. Empty = the whole list.`} />
      <button type="submit">Read</button>
      {chosen().length > 0 && <button type="button" onClick={() => go([])}>All</button>}
    </form>
  )
}

type At<T> = T & { server: string }

// Merged lists the resources of all servers, with the server as the first column.
function Merged<T extends object>({ title, path, field, text, params = {}, sort, children }: {
  title: string; path: string; field: string; text: (x: T) => string; params?: Record<string, string | boolean>
  sort?: (a: T, b: T) => number; children: (rows: At<T>[] | undefined) => ComponentChildren
}) {
  const q = useRoute().params.get('q') ?? ''
  const { rows, complete, error } = useMany<Record<string, T[]> & { listing: Listing }>(path, { ...params, limit: most })
  const items = rows.flatMap((x) => (x.data?.[field] ?? []).map((y): At<T> => ({ ...y, server: x.server })))
  const shown = items.filter((x) => matches(`${x.server} ${text(x)}`, q))
  if (sort) shown.sort(sort)
  const cut = rows.filter((x) => x.data?.listing?.next)
  return (
    <>
      <h1 class="sr">{title}</h1>
      {error && <Failure of={error} />}
      <Missing rows={rows} />
      {cut.length > 0 && <p class="notice warn">{plural(cut.length, 'server')} {cut.length === 1 ? 'has' : 'have'} more than {number(most)}: open the server to see all.</p>}
      <Panel title={title} count={q ? `${shown.length} of ${items.length}` : items.length} extra={<Filter label={`Filter ${title.toLowerCase()}`} value={q} set={(v) => setParam('q', v)} />}>
        {children(complete || items.length ? shown : undefined)}
      </Panel>
    </>
  )
}

export const ManyServices = () => <Merged<Service> title="Services" path="/services" field="services" text={(x) => `${x.domain}/${x.name} ${x.phase}`}>{(rows) => <Services rows={rows} />}</Merged>
export const ManyTasks = () => <Merged<Task> title="Tasks" path="/tasks" field="tasks" text={(x) => `${x.id} ${x.state} ${x.outcome} ${x.cell}`} sort={(a, b) => (b.created ?? '').localeCompare(a.created ?? '')}>{(rows) => <Tasks rows={rows} />}</Merged>
export const ManySchedules = () => <Merged<Schedule> title="Schedules" path="/schedules" field="schedules" text={(x) => `${x.domain}/${x.name} ${x.state} ${x.cron}`}>{(rows) => <Schedules rows={rows} />}</Merged>
export const ManyCells = () => <Merged<Cell> title="Cells" path="/cells" field="cells" params={{ all: true }} text={(x) => `${x.name} ${x.session} ${x.zone} ${x.host}`}>{(rows) => <Cells rows={rows} />}</Merged>

const zero: Counts = { total: 0, done: 0, failed: 0, running: 0, ready: 0, backoff: 0, blocked: 0, avoided: 0, disabled: 0, stranded: 0 }
function add(jobs: Job[]): Counts {
  const sum = { ...zero }
  for (const j of jobs) {
    sum.total += j.counts?.total ?? 0
    for (const k of kindsOfNode) sum[k] += j.counts?.[k] ?? 0
  }
  return sum
}

// words are the different values, the most frequent first.
function words(all: string[]): string[] {
  const n = new Map<string, number>()
  for (const w of all) n.set(w, (n.get(w) ?? 0) + 1)
  return [...n].sort((a, b) => b[1] - a[1]).map(([w]) => w)
}

// ManyJobs has one row for each job, of all servers that have it.
export function ManyJobs() {
  const q = useRoute().params.get('q') ?? ''
  const { rows, complete, error } = useMany<{ jobs: Job[]; listing: Listing }>('/jobs', { limit: most })
  const by = new Map<string, At<Job>[]>()
  for (const x of rows) for (const j of x.data?.jobs ?? []) by.set(`${j.domain}/${j.name}`, [...(by.get(`${j.domain}/${j.name}`) ?? []), { ...j, server: x.server }])
  const all = [...by].map(([name, jobs]) => ({ name, jobs, counts: add(jobs), states: words(jobs.map((j) => j.state)) }))
  const shown = all.filter((x) => matches(`${x.name} ${x.states.join(' ')}`, q)).sort((a, b) => b.counts.failed - a.counts.failed || natural(a.name, b.name))
  return (
    <>
      <h1 class="sr">Jobs</h1>
      {error && <Failure of={error} />}
      <Missing rows={rows} />
      <Panel title="Jobs" count={q ? `${shown.length} of ${all.length}` : all.length} extra={<Filter label="Filter jobs" value={q} set={(v) => setParam('q', v)} />}>
        <Table label="Jobs" rows={complete || all.length ? shown : undefined} empty="no jobs" id={(x) => x.name} columns={[
          { name: 'job', cell: (x) => <a class="name" href={href('job', [x.jobs[0]!.domain, x.jobs[0]!.name])}><span class="dim">{x.jobs[0]!.domain}/</span>{x.jobs[0]!.name}</a> },
          { name: 'servers', num: true, cell: (x) => number(x.jobs.length) },
          { name: 'state', cell: (x) => <>{x.states.map((s) => <><State is={s} /> </>)}</> },
          { name: 'batch tasks', wide: true, cell: (x) => x.counts.total > 0 ? <Bar thin counts={x.counts} label={`Batch tasks of ${x.name}`} /> : <span class="dim">no nodes</span> },
          { name: 'done', num: true, cell: (x) => <Of2 a={x.counts.done} b={x.counts.total} /> },
          { name: 'failed', num: true, cell: (x) => x.counts.failed ? <b class="bad-text">{number(x.counts.failed)}</b> : <span class="dim">0</span> },
        ]} />
      </Panel>
    </>
  )
}

// ManyJob is one job on all servers that have it: its sum, each server's part, and where they disagree.
export function ManyJob({ domain, name, state }: { domain: string; name: string; state: string }) {
  const path = `/jobs/${encodeURIComponent(domain)}/${encodeURIComponent(name)}`
  const { rows, complete, error } = useMany<{ job: Job }>(path)
  const absent = rows.filter((x) => x.error?.code === 'not_found')
  const silent = rows.filter((x) => x.error && x.error.code !== 'not_found')
  const have = rows.flatMap((x) => (x.data?.job && x.error?.code !== 'not_found' ? [{ of: x, job: x.data.job }] : []))
  const counts = add(have.map((x) => x.job))
  const diff = differences(have.map(({ of, job: j }) => ({
    server: of.server, value: { definition: j.definition, owner: j.owner, priority: j.priority, enabled: j.enabled, paused: j.paused },
  })))
  const oldest = have.map((x) => x.job.created).filter(Boolean).sort()[0] ?? null
  const of = state ? have.filter((x) => (x.job.counts?.[state as NodeKind] ?? 0) > 0) : have
  const target = (server: string, state = '') => href('job', [domain, name], { state }, server)
  return (
    <>
      <header class="head"><p class="crumbs"><a href={href('jobs')}>jobs</a></p><h1><span class="dim">job</span> {domain}/{name}</h1></header>
      {error && <Failure of={error} />}
      <Missing rows={rows} bad={silent} />
      {complete && have.length === 0 && <p class="notice warn">No server that answered has this job.</p>}
      {have.length > 0 && <Facts list={[
        ['servers', `${have.length} of ${rows.length}`],
        ['state', <>{words(have.map((x) => x.job.state)).map((s) => <><State is={s} /> </>)}</>],
        ['done', counts.total ? `${Math.floor((counts.done / counts.total) * 100)} % · ${number(counts.done)} of ${number(counts.total)}` : '–'],
        ['oldest', <Ago at={oldest} />],
      ]} />}
      {have.length > 0 && <Panel title="Batch tasks" count={counts.total}><div class="pad"><Bar counts={counts} label={`Batch tasks of ${domain}/${name}`} /><Legend counts={counts} to={(k) => href('job', [domain, name], { state: k })} chosen={state} /></div></Panel>}
      {diff.length > 0 && (
        <Panel title="Servers disagree" count={diff.length}>
          <Table label="Servers disagree" rows={diff} id={(x) => x.field} columns={[
            { name: 'field', cell: (x) => <code>{x.field}</code> },
            { name: 'values', wide: true, cell: (x) => <ul class="plain">{x.values.map((v, i) => (
              <li key={v.text}><code class={i > 0 ? 'warn-text' : ''}>{v.text}</code> <span class="dim">{plural(v.servers.length, 'server')}: {v.servers.slice(0, 5).join(', ')}{v.servers.length > 5 && ` and ${v.servers.length - 5} more`}</span></li>
            ))}</ul> },
          ]} />
        </Panel>
      )}
      <Panel title={state ? `Servers with ${state} batch tasks` : 'By server'} count={of.length}>
        <Table label="By server" rows={complete || have.length ? of.sort((a, b) => (b.job.counts?.failed ?? 0) - (a.job.counts?.failed ?? 0) || natural(a.of.server, b.of.server)) : undefined}
          empty="none" id={(x) => x.of.server} most={2000} columns={[
            { name: 'server', cell: (x) => <a class="name" href={target(x.of.server, state)}>{x.of.server}</a> },
            { name: 'state', cell: (x) => <State is={x.job.state} /> },
            { name: 'batch tasks', wide: true, cell: (x) => x.job.counts?.total ? <Bar thin counts={x.job.counts} label={`Batch tasks at ${x.of.server}`} to={(k) => target(x.of.server, k)} /> : <span class="dim">no nodes</span> },
            { name: 'done', num: true, cell: (x) => <Of2 a={x.job.counts?.done ?? 0} b={x.job.counts?.total ?? 0} /> },
            { name: 'failed', num: true, cell: (x) => x.job.counts?.failed ? <b class="bad-text">{number(x.job.counts.failed)}</b> : <span class="dim">0</span> },
            { name: 'took', num: true, cell: (x) => <Took from={x.job.created} to={x.job.ended} /> },
            { name: 'data', cell: (x) => <Age of={x.of} /> },
            { name: 'note', wide: true, cell: (x) => <span class="note">{[...x.job.errors, x.job.nodes_error, x.job.reason].filter(Boolean).join(' · ')}</span> },
          ]} />
      </Panel>
      {absent.length > 0 && <p class="dim">{plural(absent.length, 'server')} without this job: {absent.slice(0, 20).map((x) => x.server).join(', ')}{absent.length > 20 && ` and ${absent.length - 20} more`}</p>}
    </>
  )
}
