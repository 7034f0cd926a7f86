// The tables of services, jobs, tasks, schedules and cells, for the overview and for the lists.
import { scheduleTone } from './format'
import { Bar, Meter, State, Table, type Column } from './parts'
import { href } from './route'
import { Ago, Took, When } from './time'
import { amount, natural, number, resourceName } from './format'
import type { Cell, Instance, Job, Schedule, Service, Task } from './types'

// At is a row of a list over many servers, which names its server.
interface At { server?: string }
function serverColumn<T extends At>(rows: T[] | undefined): Column<T> {
  return { name: 'server', hide: !rows?.some((x) => x.server), cell: (x) => <a href={href('overview', [], {}, x.server)}>{x.server}</a> }
}

export const serviceLink = (x: { domain: string; name: string; server?: string }) => href('service', [x.domain, x.name], {}, x.server)
export const taskLink = (id: string, server?: string) => href('task', [id], {}, server)
export const cellLink = (name: string, server?: string) => href('cell', [name], {}, server)
export const instanceOutput = (x: Instance) => href('output', [], { domain: x.domain, service: x.service, index: x.index })

export function CellName({ name, server }: { name: string; server?: string }) {
  return name ? <a href={cellLink(name, server)}>{name}</a> : <span class="dim">–</span>
}

// noteOf is what an operator must know of an instance, with its tone.
export function noteOf(x: Instance): string {
  return x.unconfirmed_reason || x.condition || x.placement_error || x.crash_reason ||
    (x.stopping ? 'stopping' : x.retiring ? 'retiring' : x.finished ? 'finished' : x.orphan ? 'no service owns it' : '')
}

// noteColumn is left out when no row has a note.
export function noteColumn<T>(rows: T[] | undefined, text: (x: T) => string): Column<T> {
  return { name: 'note', wide: true, hide: !rows?.some((x) => text(x)), cell: (x) => <span class="note">{text(x)}</span> }
}

export function Services({ rows }: { rows: (Service & At)[] | undefined }) {
  return <Table label="Services" rows={rows} empty="no services" id={(x) => `${x.server} ${x.domain}/${x.name}`} columns={[
    serverColumn(rows),
    { name: 'service', cell: (x) => <a class="name" href={serviceLink(x)}><span class="dim">{x.domain}/</span>{x.name}</a> },
    { name: 'running', num: true, cell: (x) => <Replicas of={x} /> },
    { name: 'state', cell: (x) => <State is={x.removed ? 'removed' : x.crashed > 0 && x.phase === 'steady' ? 'crashed' : x.phase}
      tone={x.crashed > 0 ? 'bad' : x.running < x.instances && x.phase === 'steady' ? 'warn' : undefined} /> },
    { name: 'version', num: true, cell: (x) => x.version },
    { name: 'applied', cell: (x) => <Ago at={x.applied} /> },
    noteColumn(rows, (x) => [x.failure, x.unconfirmed ? `${x.unconfirmed} unconfirmed` : '', x.stopping ? `${x.stopping} stopping` : '', x.exclusive ? 'exclusive' : ''].filter(Boolean).join(' · ')),
  ]} />
}

function Replicas({ of: x }: { of: Service }) {
  const dots = x.instances <= 12
  return (
    <span class="replicas">
      <b class={x.running < x.instances ? 'warn-text' : ''}>{x.running}</b><span class="dim">/{x.instances}</span>
      {dots && <span class="dots" aria-hidden="true">{Array.from({ length: x.instances }, (_, i) => (
        <i key={i} class={i < x.routable ? 'ok' : i < x.running ? 'busy' : i < x.running + x.crashed ? 'bad' : 'idle'} />))}</span>}
    </span>
  )
}

export function Jobs({ rows }: { rows: Job[] | undefined }) {
  return <Table label="Jobs" rows={rows} empty="no jobs" id={(x) => `${x.domain}/${x.name}`} columns={[
    { name: 'job', cell: (x) => <a class="name" href={href('job', [x.domain, x.name])}><span class="dim">{x.domain}/</span>{x.name}</a> },
    { name: 'state', cell: (x) => <State is={x.state} /> },
    { name: 'batch tasks', wide: true, cell: (x) => x.counts && x.counts.total > 0
      ? <Bar thin counts={x.counts} label={`Batch tasks of ${x.name}`} /> : <span class="dim">no nodes</span> },
    { name: 'done', num: true, cell: (x) => <><b>{number(x.counts?.done ?? 0)}</b><span class="dim">/{number(x.counts?.total ?? 0)}</span></> },
    { name: 'failed', num: true, cell: (x) => x.counts?.failed ? <b class="bad-text">{number(x.counts.failed)}</b> : <span class="dim">0</span> },
    { name: 'created', cell: (x) => <Ago at={x.created} /> },
    { name: 'took', num: true, cell: (x) => <Took from={x.created} to={x.ended} /> },
  ]} />
}

export function Tasks({ rows }: { rows: (Task & At)[] | undefined }) {
  return <Table label="Tasks" rows={rows} empty="no tasks" id={(x) => `${x.server} ${x.id}`} columns={[
    serverColumn(rows),
    { name: 'task', cell: (x) => <a class="name" href={taskLink(x.id, x.server)}>{x.id}</a> },
    { name: 'state', cell: (x) => <State is={x.outcome || x.state} /> },
    { name: 'cell', cell: (x) => <CellName name={x.cell} server={x.server} /> },
    { name: 'started', cell: (x) => <Ago at={x.started ?? x.created} /> },
    { name: 'took', num: true, cell: (x) => x.started ? <Took from={x.started} to={x.ended} /> : <span class="dim">–</span> },
    noteColumn(rows, (x) => x.unconfirmed_reason || x.condition || x.reason || x.rejection),
  ]} />
}

export function Schedules({ rows }: { rows: (Schedule & At)[] | undefined }) {
  return <Table label="Schedules" rows={rows} empty="no schedules" id={(x) => `${x.server} ${x.domain}/${x.name}`} columns={[
    serverColumn(rows),
    { name: 'schedule', cell: (x) => <a class="name" href={href('schedule', [x.domain, x.name], {}, x.server)}><span class="dim">{x.domain}/</span>{x.name}</a> },
    { name: 'state', cell: (x) => <State is={x.state} tone={scheduleTone(x.state)} /> },
    { name: 'calendar', cell: (x) => <code>{x.cron}</code> },
    { name: 'zone', cell: (x) => x.timezone || 'UTC' },
    { name: 'next', cell: (x) => <When at={x.next} short /> },
    { name: 'last', cell: (x) => <Ago at={x.last} /> },
    noteColumn(rows, (x) => x.problem || x.note || (x.pending.length ? `${x.pending.length} undecided` : x.live.length ? `${x.live.length} may still run` : '')),
  ]} />
}

export function Cells({ rows }: { rows: (Cell & At)[] | undefined }) {
  return <Table label="Cells" rows={rows} empty="no cells" id={(x) => `${x.server} ${x.name} ${x.proc}`} columns={[
    serverColumn(rows),
    { name: 'cell', cell: (x) => <a class="name" href={cellLink(x.name, x.server)}>{x.name}</a> },
    { name: 'session', cell: (x) => <State is={x.draining ? 'draining' : x.session} tone={x.draining ? 'warn' : undefined} /> },
    { name: 'work', num: true, cell: (x) => <span title={`${x.instances} instances, ${x.tasks} tasks, ${x.batch} batch tasks`}>{x.instances + x.tasks + x.batch}</span> },
    { name: 'reserved', wide: true, cell: (x) => <div class="meters">{capacities(x).slice(0, 2).map((k) => <Capacity key={k} of={x} kind={k} />)}</div> },
    { name: 'since', cell: (x) => <Ago at={x.since} /> },
    noteColumn(rows, (x) => x.drain?.reason || x.unavailable || (x.session === 'HEALTHY' ? '' : x.reason) || x.aftermath),
  ]} />
}

const first = ['cpu_milli', 'memory_mb', 'disk_mb', 'containers']
export const capacities = (x: Cell) => Object.keys(x.capacity).sort((a, b) =>
  (first.indexOf(a) + 1 || 99) - (first.indexOf(b) + 1 || 99) || natural(a, b))

export function Capacity({ of: x, kind }: { of: Cell; kind: string }) {
  const total = x.capacity[kind] ?? 0
  const used = total - (x.free[kind] ?? 0)
  return <Meter label={resourceName(kind)} used={used} total={total} text={`${amount(kind, used)} of ${amount(kind, total)}`} />
}
