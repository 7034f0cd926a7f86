import { Act } from '../act'
import { get } from '../api'
import { CellName } from '../lists'
import { useData } from '../live'
import { Failure, Facts, Json, Panel } from '../parts'
import { href } from '../route'
import { Took, When } from '../time'
import type { Event, Task } from '../types'
import { Head, History, LastLines, useExplain, Why } from './about'
import { partsOf } from './line'

export function TaskPage({ id }: { id: string }) {
  const path = `/tasks/${encodeURIComponent(id)}`
  const mine = (e: Event) => e.subject === id
  const { data, error, refresh } = useData(path, ['task'], (s) => get<{ task: Task }>(path, {}, s), mine)
  const why = useExplain('task', id, {}, ['task'], mine)
  if (error) return <Failure of={error} />
  const x = data?.task
  return (
    <>
      <Head kind="task" name={id} state={x ? x.outcome || x.state : ''} back={['tasks', href('tasks')]}>
        {x && <TaskActions of={x} path={path} after={refresh} />}
      </Head>
      {x && <Facts list={[
        ['took', x.started ? <Took from={x.started} to={x.ended} /> : '–'],
        ['created', <When at={x.created} short />], ['started', <When at={x.started} short />], ['ended', <When at={x.ended} short />],
        ['cell', <CellName name={x.cell} />],
        ['exit', x.exit_code < 0 && !x.signal ? '–' : x.signal ? `signal ${x.signal}` : x.exit_code],
        ['domain', x.domain], ['uid', <code>{x.uid.slice(0, 12)}</code>],
      ]} />}
      {x && [x.reason, x.rejection && `${x.rejections} times not placed: ${x.rejection}`, x.oom && 'it ran out of memory', x.may_still_run && 'it may still run',
        x.callback_state === 'dead_letter' && `its callback was not delivered and is not tried any more: ${x.callback_error}`,
        x.callback_state === 'due' && x.callback_error && `its callback is tried again: ${x.callback_error}`,
        x.resolution && `resolved as ${x.resolution}`, x.unconfirmed_reason, x.condition].filter(Boolean).map((t) =>
        <p key={String(t)} class={'notice ' + (x.outcome === 'failed' || x.outcome === 'lost' ? 'bad' : 'warn')}>{t}</p>)}
      {x?.successor && <p class="notice"><a href={href('task', [x.successor])}>{x.successor}</a> runs in its place.</p>}
      <Why of={why.data} />
      {x && (x.result_json != null ? <Json title="Result" value={x.result_json} open /> : x.result && <Panel title="Result"><pre class="pad">{bytes(x.result)}</pre></Panel>)}
      <LastLines of={why.data} params={{ task: id }} />
      <History of={why.data} />
      {x?.definition != null && <Json title="Definition" value={x.definition} />}
    </>
  )
}

const bytes = (raw: string) => partsOf({ raw, text: '' } as Parameters<typeof partsOf>[0]).map((p, i) => p.odd ? <span key={i} class="odd">{p.text}</span> : p.text)

function TaskActions({ of: x, path, after }: { of: Task; path: string; after: () => void }) {
  const target = `task ${x.id} (${x.uid.slice(0, 8)})`
  if (x.outcome === 'lost' && !x.resolution) {
    const risk = x.may_still_run ? ' It may still run: a second copy may start beside it.' : ''
    return <>{(['done', 'failed', 'rerun'] as const).map((as) => <Act key={as} after={after} of={{
      name: `Resolve as ${as}…`, title: `Resolve ${x.id} as ${as}?`, target, method: 'POST', path: `${path}/resolve`, danger: as === 'rerun',
      text: as === 'rerun' ? 'The task runs again. If its old process still runs, it runs twice.' : `Its outcome becomes ${as}. It does not run again.${risk}`,
      body: () => ({ as, accept_double_starts: x.may_still_run }), done: `${target} is resolved as ${as}`,
    }} />)}</>
  }
  if (x.state === 'COMPLETED') return null
  return <Act after={after} of={{
    name: 'Stop…', title: `Stop task ${x.id}?`, target, method: 'POST', path: `${path}/cancel`, danger: true, revision: x.revision,
    text: 'The task is cancelled. If it runs, its process is ended.', body: () => ({}), done: `${target} is being cancelled`,
  }} />
}
