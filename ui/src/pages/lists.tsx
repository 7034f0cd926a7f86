// One list with a filter for each kind.
import type { ComponentChildren } from 'preact'
import { all } from '../api'
import { Cells, Jobs, Schedules, Services, Tasks } from '../lists'
import { useData } from '../live'
import { Failure, Filter, matches, Panel } from '../parts'
import { setParam, useRoute } from '../route'
import type { Cell, Job, Schedule, Service, Task } from '../types'

const most = 5000

function List<T>({ title, path, field, kinds, text, sort, children, params = {} }: {
  title: string; path: string; field: string; kinds: string[]; text: (x: T) => string; sort?: (a: T, b: T) => number
  children: (rows: T[] | undefined) => ComponentChildren; params?: Record<string, string | boolean>
}) {
  const route = useRoute()
  const q = route.params.get('q') ?? ''
  const { data, error } = useData(path, kinds, (s) => all<T>(path, field, params, most, s))
  const rows = data?.items.filter((x) => matches(text(x), q))
  if (rows && sort) rows.sort(sort)
  return (
    <>
      <h1 class="sr">{title}</h1>
      {error && <Failure of={error} />}
      <Panel title={title} count={rows && data ? (q ? `${rows.length} of ${data.items.length}` : rows.length) + (data.more ? '+' : '') : undefined}
        extra={<Filter label={`Filter ${title.toLowerCase()}`} value={q} set={(v) => setParam('q', v)} />}>
        {children(rows)}
      </Panel>
    </>
  )
}

export const ServiceList = () => <List<Service> title="Services" path="/services" field="services" kinds={['service', 'instance']} text={(x) => `${x.domain}/${x.name} ${x.phase}`}>{(rows) => <Services rows={rows} />}</List>
export const JobList = () => <List<Job> title="Jobs" path="/jobs" field="jobs" kinds={['job', 'node']} text={(x) => `${x.name} ${x.domain} ${x.state} ${x.owner}`}>{(rows) => <Jobs rows={rows} />}</List>
export const TaskList = () => <List<Task> title="Tasks" path="/tasks" field="tasks" kinds={['task']} text={(x) => `${x.id} ${x.state} ${x.outcome} ${x.cell}`} sort={(a, b) => (b.created ?? '').localeCompare(a.created ?? '')}>{(rows) => <Tasks rows={rows} />}</List>
export const ScheduleList = () => <List<Schedule> title="Schedules" path="/schedules" field="schedules" kinds={['schedule']} text={(x) => `${x.domain}/${x.name} ${x.state} ${x.cron} ${x.timezone}`}>{(rows) => <Schedules rows={rows} />}</List>
export const CellList = () => <List<Cell> title="Cells" path="/cells" field="cells" kinds={['cell']} params={{ all: true }} text={(x) => `${x.name} ${x.session} ${x.zone} ${x.host}`}>{(rows) => <Cells rows={rows} />}</List>
