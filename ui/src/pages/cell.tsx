import { Act } from '../act'
import { all, get } from '../api'
import { seconds, span } from '../format'
import { capacities, Capacity, instanceOutput, noteColumn, noteOf, serviceLink, Tasks } from '../lists'
import { useData } from '../live'
import { Failure, Facts, Labels, Panel, State, Table } from '../parts'
import { href } from '../route'
import { Ago, When } from '../time'
import type { Cell, Instance, Task } from '../types'
import { Head } from './about'

export function CellPage({ name }: { name: string }) {
  const path = `/cells/${encodeURIComponent(name)}`
  const { data, error, refresh } = useData(path, ['cell', 'instance', 'task', 'node'], async (s) => {
    const [one, instances, tasks] = await Promise.all([
      get<{ cell: Cell }>(path, {}, s), all<Instance>('/instances', 'instances', { cell: name, all: true }, 2000, s),
      all<Task>('/tasks', 'tasks', { cell: name, state: ['PENDING', 'RUNNING'] }, 2000, s),
    ])
    return { cell: one.cell, instances: instances.items, tasks: tasks.items }
  })
  if (error) return <Failure of={error} />
  const x = data?.cell
  const target = `cell ${name} (${x?.proc.slice(0, 8)})`
  return (
    <>
      <Head kind="cell" name={name} state={x ? (x.draining ? 'draining' : x.session) : ''} tone={x?.draining ? 'warn' : undefined} back={['cells', href('cells')]}>
        {x && (x.drain
          ? <Act after={refresh} of={{ name: 'Undrain…', title: `Undrain cell ${name}?`, target, method: 'DELETE', path: `${path}/drain`, text: 'It gets new work again.', body: () => ({}), done: `${target} is undrained` }} />
          : x.session !== 'LOST' && x.session !== 'LEFT' && <Act after={refresh} of={{
            name: 'Drain…', title: `Drain cell ${name}?`, target, method: 'PUT', path: `${path}/drain`, danger: true,
            text: 'It gets no new work. Instances move to other cells; tasks and batch tasks may end by the deadline of the cell.',
            input: { label: 'reason, shown to everyone', value: '', type: 'text' }, body: (reason) => ({ reason }), done: `${target} is drained`,
          }} />)}
      </Head>
      {x && <Facts list={[
        ['session', <State is={x.session} />], ['since', <Ago at={x.since} />], ['reason', x.reason || '–'],
        ['reported', x.reported ? 'yes' : 'no'], ['gets work', x.eligible && !x.draining && !x.unavailable ? 'yes' : 'no'],
        ...(x.dead_in ? [['declared dead in', span(seconds(x.dead_in))] as [string, string]] : []),
        ['zone', x.zone || '–'], ['address', <code>{x.address || 'in the server'}</code>], ['build', x.build], ['process', <code>{x.proc.slice(0, 12)}</code>],
      ]} />}
      {x && [x.unavailable, x.aftermath].filter(Boolean).map((t) => <p key={t} class="notice warn">{t}</p>)}
      {x?.drain && (
        <p class="notice warn"><b>Drained:</b> {x.drain.reason}, <Ago at={x.drain.since} />{x.drain.until && <>, until <When at={x.drain.until} short /></>}
          {x.drain.ended ? <>; ended <Ago at={x.drain.ended} /></> : x.drain.waits.length > 0 && <>; waits for {x.drain.waits.join(', ')}</>}</p>
      )}
      {x && (
        <div class="columns">
          <Panel title="Reserved"><div class="meters pad">{capacities(x).map((k) => <Capacity key={k} of={x} kind={k} />)}</div></Panel>
          <Panel title="Properties">
            <Facts list={[
              ['labels', <Labels of={x.labels} />], ['tags', x.tags.join(', ') || '–'], ['taints', x.taints.join(', ') || '–'],
              ['isolation', x.isolation.join(', ') || '–'], ['volumes', volumes(x.volumes)], ['instances', x.instances], ['tasks', x.tasks], ['batch tasks', x.batch],
            ]} />
          </Panel>
        </div>
      )}
      <Panel title="Instances" count={data?.instances.length}>
        <Table label="Instances" rows={data?.instances} id={(i) => i.instance + i.index} empty="no instances" columns={[
          { name: 'instance', cell: (i) => <a class="name" href={serviceLink({ domain: i.domain, name: i.service })}>{i.domain}/{i.service}/{i.index}</a> },
          { name: 'state', cell: (i) => <State is={i.state} /> },
          { name: 'ports', cell: (i) => <code>{i.ports.map((p) => `${p.name}:${p.port}`).join(' ') || '–'}</code> },
          { name: 'since', cell: (i) => <Ago at={i.since} /> },
          noteColumn(data?.instances, noteOf),
          { name: 'output', cell: (i) => <a href={instanceOutput(i)} aria-label={`Output of ${i.service}/${i.index}`}>output</a> },
        ]} />
      </Panel>
      <Panel title="Tasks" count={data?.tasks.length}><Tasks rows={data?.tasks} /></Panel>
    </>
  )
}

// volumes are the directories of the machine that work may mount.
const volumes = (dirs: string[]) => dirs.length === 0 ? 'none allowed'
  : dirs.map((d) => <div key={d}><code>{d.replace(/:ro$/, '')}</code>{d.endsWith(':ro') && <span class="dim"> read-only</span>}</div>)
