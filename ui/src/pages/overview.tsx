// The overview: what is wrong first, then what there is.
import { all, get } from '../api'
import { number, plural, seconds, span, type Tone } from '../format'
import { Cells, cellLink, Jobs, noteOf, Schedules, Services, serviceLink, taskLink, Tasks } from '../lists'
import { useData } from '../live'
import { Failure, Panel } from '../parts'
import { href } from '../route'
import { Ago } from '../time'
import type { Cell, Instance, Job, Schedule, Service, Status, Task } from '../types'

interface All {
  status: Status; services: Service[]; bad: Instance[]; jobs: Job[]; tasks: Task[]; schedules: Schedule[]; cells: Cell[]
}

interface Wrong { tone: Tone; what: string; link: string; why: string; at?: string | null }

const most = 500

async function load(s: AbortSignal): Promise<All> {
  const [status, services, bad, jobs, tasks, schedules, cells] = await Promise.all([
    get<{ status: Status }>('/status', {}, s),
    all<Service>('/services', 'services', {}, most, s),
    all<Instance>('/instances', 'instances', { state: ['CRASHED', 'UNCLAIMED'] }, most, s),
    all<Job>('/jobs', 'jobs', {}, most, s),
    all<Task>('/tasks', 'tasks', {}, most, s),
    all<Schedule>('/schedules', 'schedules', {}, most, s),
    all<Cell>('/cells', 'cells', {}, most, s),
  ])
  return { status: status.status, services: services.items, bad: bad.items, jobs: jobs.items, tasks: tasks.items, schedules: schedules.items, cells: cells.items }
}

export function Overview() {
  const { data, error } = useData('overview', ['service', 'instance', 'job', 'task', 'schedule', 'cell', 'note'], load)
  const c = data?.status.counts
  return (
    <>
      <h1 class="sr">Overview</h1>
      {error && <Failure of={error} />}
      <div class="tiles">
        <Tile name="cells" link={href('cells')} value={c && `${c.cells_healthy}/${c.cells}`} text="healthy" bad={!!c && c.cells_healthy! < c.cells!} />
        <Tile name="instances" link={href('services')} value={c && `${c.running}/${c.instances}`} text="running" bad={!!c && c.running! < c.instances!} />
        <Tile name="jobs" link={href('jobs')} value={c && number(c.jobs ?? 0)} text={c?.batch_running ? `${number(c.batch_running)} batch tasks running` : 'none running'} />
        <Tile name="tasks" link={href('tasks')} value={c && number((c.tasks_running ?? 0) + (c.tasks_pending ?? 0))} text={c ? `active, ${number(c.tasks_lost ?? 0)} lost` : ''} bad={!!c?.tasks_lost} />
        <Tile name="schedules" link={href('schedules')} value={c && number(c.schedules ?? 0)} text={nextOf(data?.schedules)} />
      </div>
      {data && <Problems list={problems(data)} />}
      <div class="columns">
        <Panel title="Services" count={c?.services}><Services rows={data && [...data.services].sort((a, b) => Number(healthy(a)) - Number(healthy(b))).slice(0, 12)} /></Panel>
        <Panel title="Jobs" count={c?.jobs}><Jobs rows={data && data.jobs.slice(0, 12)} /></Panel>
        <Panel title="Cells" count={c?.cells}><Cells rows={data && data.cells.slice(0, 12)} /></Panel>
        <Panel title="Schedules" count={c?.schedules}><Schedules rows={data && data.schedules.slice(0, 12)} /></Panel>
      </div>
      <Panel title="Newest tasks"><Tasks rows={data && [...data.tasks].sort((a, b) => (b.created ?? '').localeCompare(a.created ?? '')).slice(0, 12)} /></Panel>
    </>
  )
}

const healthy = (x: Service) => x.running >= x.instances && x.phase === 'steady' && !x.unconfirmed

function nextOf(list: Schedule[] | undefined) {
  const next = (list ?? []).map((x) => x.next ?? '').filter(Boolean).sort()[0]
  return next ? <>next <Ago at={next} /></> : 'none due'
}

function Tile({ name, link, value, text, bad }: { name: string; link: string; value: string | undefined; text: preact.ComponentChildren; bad?: boolean }) {
  return (
    <a class={'tile' + (bad ? ' bad' : '')} href={link}>
      <span class="tile-name">{name}</span>
      <span class="tile-value num">{value ?? '…'}</span>
      <span class="tile-text">{text}</span>
    </a>
  )
}

function Problems({ list }: { list: Wrong[] }) {
  if (list.length === 0) {
    return <p class="notice ok"><b>● All work is as desired.</b> No cell, service, job, task or schedule needs attention.</p>
  }
  return (
    <Panel title="Needs attention" count={list.length}>
      <ul class="problems">
        {list.slice(0, 50).map((x, i) => (
          <li key={x.what + i} class={x.tone}>
            <span class="glyph" aria-hidden="true">{x.tone === 'bad' ? '✖' : '▲'}</span>
            {x.link ? <a class="name" href={x.link}>{x.what}</a> : <b class="name">{x.what}</b>}
            <span class="why">{x.why}</span>
            {x.at && <span class="dim num"><Ago at={x.at} /></span>}
          </li>
        ))}
      </ul>
      {list.length > 50 && <p class="empty">and {list.length - 50} more</p>}
    </Panel>
  )
}

function problems(d: All): Wrong[] {
  const out: Wrong[] = []
  const s = d.status
  if (s.waiting) out.push({ tone: 'bad', what: 'initial wait', link: href('cells'), why: `work that may already run is not started until ${s.waiting_for.join(', ') || 'all cells'} reported` + (s.longest ? `, at most ${span(seconds(s.longest))}` : '') })
  for (const w of s.warnings) out.push({ tone: 'warn', what: 'server', link: '', why: w })
  if (s.quarantined) out.push({ tone: 'bad', what: 'store', link: '', why: `${plural(s.quarantined, 'row')} cannot be read: cantina store quarantine show` })
  for (const x of d.cells) {
    if (x.session !== 'HEALTHY') out.push({ tone: x.session === 'NEW' ? 'warn' : 'bad', what: `cell ${x.name}`, link: cellLink(x.name), why: `${x.session}: ${x.reason}`, at: x.since })
    else if (x.draining) out.push({ tone: 'warn', what: `cell ${x.name}`, link: cellLink(x.name), why: `is drained: ${x.drain?.reason ?? ''}`, at: x.drain?.since ?? null })
    else if (x.unavailable) out.push({ tone: 'warn', what: `cell ${x.name}`, link: cellLink(x.name), why: x.unavailable })
  }
  const services = new Map<string, Instance[]>()
  for (const x of d.bad) {
    const key = `${x.domain}/${x.service}`
    services.set(key, [...(services.get(key) ?? []), x])
  }
  for (const x of d.services) {
    const bad = services.get(`${x.domain}/${x.name}`) ?? []
    const crashed = bad.some((i) => i.state === 'CRASHED')
    const why = bad.map(noteOf).find(Boolean) ?? x.failure
    if (x.phase === 'rollout failed' || bad.length > 0) {
      const count = bad.length > 0 ? `${bad.length} of ${x.instances} ${crashed ? 'crashed' : 'not placed'}: ` : 'rollout failed: '
      out.push({ tone: crashed || x.phase === 'rollout failed' ? 'bad' : 'warn', what: `${x.domain}/${x.name}`, link: serviceLink(x), why: count + (why || 'waiting for placement'), at: bad[0]?.since ?? null })
    } else if (x.unconfirmed) out.push({ tone: 'warn', what: `${x.domain}/${x.name}`, link: serviceLink(x), why: `${plural(x.unconfirmed, 'instance')} unconfirmed: the cell is silent` })
  }
  const day = Date.now() - 86_400_000
  const past = (ended: string | null) => !!ended && Date.parse(ended) <= day // a failure that is no news
  for (const x of d.jobs) {
    const link = href('job', [x.domain, x.name]), what = `job ${x.domain}/${x.name}`
    if (x.errors.length) out.push({ tone: 'bad', what, link, why: x.errors[0]! })
    else if (x.nodes_error) out.push({ tone: 'bad', what, link, why: x.nodes_error })
    else if (x.counts?.failed && !past(x.ended)) out.push({ tone: 'bad', what, link: href('job', [x.domain, x.name], { state: 'failed' }), why: `${number(x.counts.failed)} of ${plural(x.counts.total, 'batch task')} failed`, at: x.ended })
    else if (x.counts?.stranded) out.push({ tone: 'warn', what, link, why: `${plural(x.counts.stranded, 'batch task')} wait for a job that cannot finish` })
  }
  for (const x of d.tasks) {
    const link = taskLink(x.id)
    if (x.outcome === 'lost' && !x.resolution) out.push({ tone: 'bad', what: `task ${x.id}`, link, why: 'lost: its cell did not report the end; resolve it', at: x.ended })
    else if (x.callback_state === 'dead_letter') out.push({ tone: 'bad', what: `task ${x.id}`, link, why: `callback not delivered: ${x.callback_error}`, at: x.ended })
    else if (x.outcome === 'failed' && !past(x.ended)) out.push({ tone: 'bad', what: `task ${x.id}`, link, why: `failed: ${x.reason}`, at: x.ended })
    else if (x.state === 'PENDING' && x.rejection) out.push({ tone: 'warn', what: `task ${x.id}`, link, why: `not placed: ${x.rejection}`, at: x.created })
    else if (x.unconfirmed_reason || x.condition) out.push({ tone: 'warn', what: `task ${x.id}`, link, why: x.unconfirmed_reason || x.condition, at: x.started })
  }
  for (const x of d.schedules) {
    if (x.problem || ['broken', 'clock behind', 'undecided', 'paused'].includes(x.state)) {
      out.push({ tone: x.problem || x.state === 'broken' ? 'bad' : 'warn', what: `schedule ${x.domain}/${x.name}`, link: href('schedule', [x.domain, x.name]), why: x.problem || x.note || x.state })
    }
  }
  for (const x of s.held) out.push({ tone: 'warn', what: x.what, link: x.cell ? cellLink(x.cell) : '', why: `held: ${x.reason}` + (x.longest ? `, at most ${span(seconds(x.longest))}` : '') })
  if (s.held_more) out.push({ tone: 'warn', what: 'held work', link: '', why: `and ${number(s.held_more)} more` })
  return out.sort((a, b) => Number(a.tone !== 'bad') - Number(b.tone !== 'bad'))
}
