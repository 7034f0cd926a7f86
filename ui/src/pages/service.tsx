import { Act } from '../act'
import { all, get } from '../api'
import { plural } from '../format'
import { CellName, instanceOutput, noteColumn, noteOf } from '../lists'
import { useData } from '../live'
import { Failure, Facts, Json, Meter, Panel, State, Table } from '../parts'
import { href } from '../route'
import { Ago } from '../time'
import type { Event, Instance, Service } from '../types'
import { Head, History, LastLines, useExplain, Why } from './about'

export function ServicePage({ domain, name }: { domain: string; name: string }) {
  const path = `/services/${encodeURIComponent(domain)}/${encodeURIComponent(name)}`
  const mine = (e: Event) => e.subject === `${domain}/${name}` || e.subject.startsWith(`${domain}/${name}/`)
  const { data, error, refresh } = useData(path, ['service', 'instance'], async (s) => {
    const [one, list] = await Promise.all([
      get<{ service: Service }>(path, {}, s), all<Instance>('/instances', 'instances', { domain, service: name }, 5000, s),
    ])
    return { service: one.service, instances: list.items, more: list.more }
  }, mine)
  const why = useExplain('service', name, { domain }, ['service', 'instance'], mine)
  if (error) return <Failure of={error} />
  const x = data?.service
  const current = x?.versions[x.versions.length - 1]
  const crashes = (data?.instances ?? []).filter((i) => i.last_crash)
  return (
    <>
      <Head kind="service" name={`${domain}/${name}`} back={['services', href('services')]}
        state={x ? (x.removed ? 'removed' : x.phase) : ''}>
        {x && <ServiceActions of={x} path={path} after={refresh} />}
      </Head>
      {x && <Facts list={[
        ['running', <><b class={x.running < x.instances ? 'warn-text' : ''}>{x.running}</b> of {x.instances}</>],
        ['routable', x.routable],
        ...(x.crashed ? [['crashed', <b class="bad-text">{x.crashed}</b>] as [string, preact.ComponentChildren]] : []),
        ['version', <>{x.version}{x.phase !== 'steady' && `, ${x.healthy} of ${x.instances} healthy`}</>],
        ['applied', <Ago at={x.applied} />],
        ['copies', x.exclusive ? 'exclusive: never two of one index' : 'ordinary'],
      ]} />}
      {x && x.phase !== 'steady' && !x.removed && (
        <div class="meters pad"><Meter label={x.phase} used={x.healthy} total={x.instances} good text={`${x.healthy} of ${x.instances} healthy`} /></div>
      )}
      {x?.failure && <p class="notice bad"><b>Last rollout failed:</b> {x.failure}</p>}
      <Why of={why.data} />
      <Panel title="Instances" count={data?.instances.length}>
        <Table label="Instances" rows={data?.instances} id={(i) => `${i.index} ${i.instance} ${i.version}`} empty="no instances" columns={[
          { name: 'instance', cell: (i) => <a class="name" href={instanceOutput(i)} title="Follow its output">{name}/{i.index}</a> },
          { name: 'state', cell: (i) => <><State is={i.state} />{i.presence !== 'ORDINARY' && <span class="chip">{i.presence}</span>}</> },
          { name: 'routable', cell: (i) => i.routable ? 'yes' : <span class="dim">no</span> },
          { name: 'cell', cell: (i) => <CellName name={i.cell} /> },
          { name: 'zone', hide: !data?.instances.some((i) => i.zone), cell: (i) => i.zone || <span class="dim">–</span> },
          { name: 'address', cell: (i) => i.ports.length ? <code>{i.address}:{i.ports.map((p) => p.port).join(',')}</code> : <span class="dim">–</span> },
          { name: 'since', cell: (i) => <Ago at={i.since} /> },
          { name: 'version', num: true, cell: (i) => i.version },
          { name: 'crashes', num: true, cell: (i) => i.crash_count ? <b class="bad-text">{i.crash_count}</b> : <span class="dim">0</span> },
          noteColumn(data?.instances, noteOf),
        ]} />
      </Panel>
      {crashes.length > 0 && (
        <Panel title="Last crashes" count={crashes.length}>
          <Table label="Last crashes" rows={crashes} id={(i) => String(i.index)} columns={[
            { name: 'instance', cell: (i) => `${name}/${i.index}` },
            { name: 'when', cell: (i) => <Ago at={i.last_crash_time} /> },
            { name: 'cell', cell: (i) => <CellName name={i.last_crash_cell} /> },
            { name: 'cause', wide: true, cell: (i) => <span class="note">{i.last_crash}</span> },
          ]} />
        </Panel>
      )}
      <LastLines of={why.data} params={{ domain, service: name }} />
      <History of={why.data} />
      {current && <Json title={`Definition of version ${current.number}`} value={current.workload} />}
    </>
  )
}

function ServiceActions({ of: x, path, after }: { of: Service; path: string; after: () => void }) {
  const target = `service ${x.domain}/${x.name}`
  return (
    <>
      <Act after={after} of={{
        name: 'Scale…', title: `Scale ${target}?`, target, method: 'PUT', path: `${path}/instances`, revision: x.revision,
        text: `It has ${plural(x.instances, 'instance')}. Fewer instances: those with the highest numbers are stopped.`,
        input: { label: 'instances', value: String(x.instances), type: 'number' },
        body: (n) => ({ instances: Number(n) }), done: `${target} is scaled`,
      }} />
      <Act after={after} of={{
        name: 'Restart…', title: `Restart ${target}?`, target, method: 'POST', path: `${path}/restart`,
        text: `All ${plural(x.instances, 'instance')} are replaced, by the rules of an update.`, body: () => ({}), done: `${target} restarts`,
      }} />
      <Act after={after} of={{
        name: 'Stop…', title: `Stop and remove ${target}?`, target, method: 'DELETE', path, danger: true, revision: x.revision,
        text: `All ${plural(x.instances, 'instance')} are stopped, and the service is removed. To keep its definition, scale it to 0.`,
        body: () => ({}), done: `${target} is being removed`,
      }} />
    </>
  )
}
