import { useState } from 'preact/hooks'
import { useEvents } from '../live'
import { Filter, matches, Panel, Table } from '../parts'
import { href, setParam, useRoute } from '../route'
import { When } from '../time'
import type { Event } from '../types'
import { EventText } from './about'

const kept = 1000

export function linkOf(e: Event): string {
  const at = e.subject.indexOf('/')
  const [a, b] = [e.subject.slice(0, at), e.subject.slice(at + 1)]
  switch (e.kind) {
    case 'service': return href('service', [a, b])
    case 'instance': return href('service', [a, b.slice(0, b.lastIndexOf('/'))])
    case 'task': return href('task', [e.subject])
    case 'job': return href('job', [a, b])
    case 'node': return e.node ? href('node', [e.domain, e.node.job, e.node.node]) : ''
    case 'cell': return href('cell', [e.subject])
    case 'schedule': return href('schedule', [a, b])
    default: return ''
  }
}

// Events lists what changes from now on.
export function Events() {
  const [list, set] = useState<Event[]>([])
  const [gaps, setGaps] = useState(0)
  const [still, setStill] = useState(false)
  const q = useRoute().params.get('q') ?? ''
  useEvents(['service', 'instance', 'task', 'job', 'node', 'cell', 'schedule', 'note'], (e) => {
    if (!e) setGaps((n) => n + 1)
    else if (!still) set((old) => [e, ...old].slice(0, kept))
  })
  const rows = list.filter((e) => matches(`${e.kind} ${e.subject} ${e.text} ${e.domain} ${JSON.stringify(e.instance?.state ?? e.task?.state ?? e.node?.state ?? '')}`, q))
  return (
    <>
      <h1 class="sr">Events</h1>
      <Panel title="Events" count={rows.length} extra={
        <>
          {gaps > 1 && <span class="dim">{gaps - 1} gaps</span>}
          <button type="button" aria-pressed={still} onClick={() => setStill(!still)}>{still ? 'Continue' : 'Pause'}</button>
          <Filter label="Filter events" value={q} set={(v) => setParam('q', v)} />
        </>}>
        <Table label="Events" rows={rows} id={(e) => e.position} empty="waiting for events" most={kept} columns={[
          { name: 'time', cell: (e) => <When at={e.time} short fraction /> },
          { name: 'kind', cell: (e) => <span class="dim">{e.kind}</span> },
          { name: 'subject', cell: (e) => linkOf(e) ? <a class="name" href={linkOf(e)}>{e.subject}</a> : e.subject },
          { name: 'change', wide: true, cell: (e) => <EventText of={e} /> },
          { name: 'revision', num: true, cell: (e) => <span class="dim">{e.revision}</span> },
        ]} />
      </Panel>
    </>
  )
}
