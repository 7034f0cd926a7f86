import { useRef, useState } from 'preact/hooks'
import { Act } from '../act'
import { all, get } from '../api'
import { natural, number, plural, span } from '../format'
import { CellName } from '../lists'
import { useData } from '../live'
import { Bar, Failure, Facts, Filter, Json, Legend, matches, Panel, State, Table, type NodeKind } from '../parts'
import { href, setParam, useRoute } from '../route'
import { Ago, Took, When } from '../time'
import type { Counts, Event, Job, JobNode } from '../types'
import { Head, History, LastLines, useExplain, Why } from './about'

// A job is named within its domain, like a service.
interface JobKey { domain: string; name: string }
const jobPath = (k: JobKey) => `/jobs/${encodeURIComponent(k.domain)}/${encodeURIComponent(k.name)}`
const jobHref = (k: JobKey, params = {}) => href('job', [k.domain, k.name], params)
const full = (k: JobKey) => `${k.domain}/${k.name}`

export function JobPage({ of: k, state, below }: { of: JobKey; state: string; below: string }) {
  const path = jobPath(k), name = full(k)
  const mine = (e: Event) => e.subject === name || e.subject.startsWith(name + '/')
  const { data, error, refresh } = useData(path, ['job', 'node'], (s) => get<{ job: Job }>(path, {}, s), mine)
  const x = data?.job
  const progress = useProgress(x?.counts)
  if (error) return <Failure of={error} />
  const to = (kind: NodeKind | '') => jobHref(k, { state: kind, below })
  return (
    <>
      <Head kind="job" name={name} state={x?.state ?? ''} back={['jobs', href('jobs')]}>
        {x && <JobActions of={x} path={path} after={refresh} />}
      </Head>
      {x && <Facts list={[
        ['done', <><b>{share(x.counts)}</b> <span class="dim">{number(x.counts?.done ?? 0)} of {number(x.counts?.total ?? 0)}</span></>],
        ...progress,
        ['priority', x.priority], ['retries', x.definition?.retries ?? 0],
        ['age', <Took from={x.created} to={x.ended} />],
        ...fact('policy', x.definition?.policy), ...fact('order of cells', x.definition?.cell_order),
        ...jobs(k.domain, 'depends on', x.definition?.depends_on), ...jobs(k.domain, 'after', x.definition?.after),
      ]} />}
      {x && [...x.errors, x.nodes_error, x.reason].filter(Boolean).map((t) => <p key={t} class="notice warn">{t}</p>)}
      {x?.counts && (
        <Panel title="Batch tasks" count={x.counts.total}>
          <div class="pad">
            <Bar counts={x.counts} label={`Batch tasks of ${name}`} to={to} />
            <Legend counts={x.counts} to={to} chosen={state} />
          </div>
        </Panel>
      )}
      {x && <Levels job={k} below={below} state={state} />}
      {x && <Nodes job={k} state={state} below={below} />}
      {x?.definition && <Json title="Definition" value={x.definition} />}
    </>
  )
}

type Fact = [string, preact.ComponentChildren]
const fact = (name: string, text: string | undefined): Fact[] => (text ? [[name, text.replaceAll('_', ' ')]] : [])
const jobs = (domain: string, name: string, list: string[] | undefined): Fact[] =>
  list?.length ? [[name, list.map((d) => <a key={d} href={jobHref({ domain, name: d })}>{d} </a>)]] : []

const share = (c: Counts | null) => (c && c.total ? `${Math.floor((c.done / c.total) * 100)} %` : '–')

// useProgress computes rate and remaining time from the counts since the page was opened.
function useProgress(c: Counts | null | undefined): [string, string][] {
  const seen = useRef<{ at: number; ended: number }[]>([])
  if (!c) return []
  const ended = c.done + c.failed
  const now = Date.now()
  const list = seen.current
  if (list.length === 0 || list[list.length - 1]!.ended !== ended) list.push({ at: now, ended })
  while (list.length > 2 && now - list[0]!.at > 60_000) list.shift()
  const first = list[0]!
  const rate = ((ended - first.ended) / (now - first.at)) * 1000
  const left = c.total - ended
  if (!(rate > 0) || left <= 0) return []
  return [['rate', `${rate.toLocaleString('en', { maximumFractionDigits: rate < 10 ? 1 : 0 })}/s`], ['remaining', span((left / rate) * 1000)]]
}

function JobActions({ of: x, path, after }: { of: Job; path: string; after: () => void }) {
  const target = `job ${full(x)} (${x.uid.slice(0, 8)})`
  const running = x.counts?.running ?? 0, failed = x.counts?.failed ?? 0
  return (
    <>
      <Act after={after} of={x.paused
        ? { name: 'Resume…', title: `Resume job ${full(x)}?`, target, method: 'PUT', path: `${path}/paused`, revision: x.revision, text: 'Batch tasks start again.', body: () => ({ paused: false }), done: `${target} is resumed` }
        : { name: 'Pause…', title: `Pause job ${full(x)}?`, target, method: 'PUT', path: `${path}/paused`, revision: x.revision, text: `No batch task starts until it is resumed. ${plural(running, 'running batch task')} continue.`, body: () => ({ paused: true }), done: `${target} is paused` }} />
      {failed > 0 && <Act after={after} of={{
        name: 'Retry failed…', title: `Retry failed batch tasks of job ${full(x)}?`, target, method: 'POST', path: `${path}/retry`, revision: x.revision,
        text: `${plural(failed, 'failed batch task')} of the job run again, with all retries.`, body: () => ({}), done: `Failed batch tasks of ${target} run again`,
      }} />}
      {running > 0 && <Act after={after} of={{
        name: 'Kill…', title: `Kill running batch tasks of job ${full(x)}?`, target, method: 'POST', path: `${path}/kill`, danger: true, revision: x.revision,
        text: `${plural(running, 'running batch task')} are ended now. The job goes on: pause it first if they must not run again.`, body: () => ({}), done: `Running batch tasks of ${target} are being ended`,
      }} />}
    </>
  )
}

interface Groups { groups: { node: string; level: string; counts: Counts }[]; more: number }

// Levels has one bar for each node of the level below a node; failed ones first. The server counts them, so that the
// size of the job does not matter.
function Levels({ job, below, state }: { job: JobKey; below: string; state: string }) {
  const path = `${jobPath(job)}/groups`
  const { data } = useData(`${path} ${below}`, ['node'], (s) => get<Groups>(path, { below }, s), (e) => e.node?.job === job.name && e.domain === job.domain)
  if (!data || data.groups.length === 0) return null
  return (
    <Panel title={`Level ${data.groups[0]!.level}${below && ` below ${below}`}`} id="level" count={data.groups.length + data.more}
      extra={below && <a class="button" href={jobHref(job, { state })}>Show all nodes</a>}>
      <ul class="groups">
        {data.groups.slice(0, 200).map((g) => (
          <li key={g.node}>
            <a class="name" href={jobHref(job, { state, below: g.node })}>{g.node}</a>
            <Bar thin counts={g.counts} label={`Batch tasks below ${g.node}`} to={(k) => jobHref(job, { state: k, below: g.node })} />
            <span class="num">{g.counts.failed > 0 && <b class="bad-text">{number(g.counts.failed)} failed </b>}<span class="dim">{number(g.counts.done)}/{number(g.counts.total)}</span></span>
          </li>
        ))}
      </ul>
      {data.groups.length + data.more > 200 && <p class="empty">and {number(data.groups.length + data.more - 200)} more nodes, with fewer failures</p>}
    </Panel>
  )
}

// urgent puts failed and running batch tasks first.
const urgent = (n: JobNode) => (n.state === 'failed' ? 0 : n.state === 'running' ? 1 : n.state === 'backoff' || n.state === 'stranded' ? 2 : n.state === 'done' ? 4 : 3)

// Nodes lists the batch tasks of a state, of a part of the tree.
function Nodes({ job, state, below }: { job: JobKey; state: string; below: string }) {
  const q = useRoute().params.get('q') ?? ''
  const [shown, setShown] = useState(100)
  const limit = Math.max(500, shown)
  const path = `${jobPath(job)}/nodes`
  const { data, error } = useData(`${path} ${state} ${below} ${limit}`, ['node'], (s) => all<JobNode>(path, 'nodes', { state, below }, limit, s), (e) => e.node?.job === job.name && e.domain === job.domain)
  const rows = data?.items.filter((n) => matches(`${n.node} ${n.reason} ${n.cell}`, q)).sort((a, b) => urgent(a) - urgent(b) || natural(a.node, b.node))
  const title = `${state ? state[0]!.toUpperCase() + state.slice(1) : 'All'} nodes${below ? ` below ${below}` : ''}`
  return (
    <Panel title={title} id="nodes" count={rows && rows.length + (data!.more ? '+' : '')}
      extra={<>{(state || below) && <a class="button" href={jobHref(job)}>Clear</a>}<Filter label="Filter nodes" value={q} set={(v) => setParam('q', v)} /></>}>
      {error && <Failure of={error} />}
      <Table label={title} rows={rows} id={(n) => n.node} empty="no such nodes" most={shown} rest={false} columns={[
        { name: 'node', cell: (n) => <a class="name" href={href('node', [job.domain, job.name, n.node])}>{n.node}</a> },
        { name: 'state', cell: (n) => <State is={n.state} /> },
        { name: 'errors', num: true, cell: (n) => n.errors || <span class="dim">0</span> },
        { name: 'cell', cell: (n) => <CellName name={n.cell} /> },
        { name: 'changed', cell: (n) => <Ago at={n.since ?? n.time} /> },
        { name: 'note', wide: true, cell: (n) => <span class="note">{n.unconfirmed_reason || n.condition || n.reason}{n.next && <> · next try <Ago at={n.next} /></>}</span> },
        { name: 'output', cell: (n) => <a href={href('output', [], { domain: job.domain, job: job.name, node: n.node })} aria-label={`Output of ${n.node}`}>output</a> },
      ]} />
      {rows && (data!.more || rows.length > shown) && (
        <p class="empty">{number(Math.min(shown, rows.length))} nodes are shown. <button type="button" onClick={() => setShown(shown * 4)}>Show more</button></p>
      )}
    </Panel>
  )
}

// Attempts links the output of each attempt, the newest first.
function Attempts({ job, node: x }: { job: JobKey; node: JobNode }) {
  const ended = ['done', 'running'].includes(x.state) ? 1 : 0
  const all = Array.from({ length: x.errors + x.losses + ended }, (_, i) => i + 1).reverse()
  if (all.length === 0) return <>none</>
  return <>{all.slice(0, 20).map((n) => <a key={n} href={href('output', [], { domain: job.domain, job: job.name, node: x.node, attempt: n })} aria-label={`Output of attempt ${n}`}>{n} </a>)}{all.length > 20 && '…'}</>
}

export function NodePage({ of: k, node }: { of: JobKey; node: string }) {
  const path = jobPath(k), job = full(k)
  const mine = (e: Event) => e.node?.job === k.name && e.domain === k.domain && e.node.node === node
  const { data, error, refresh } = useData(`${path} ${node}`, ['node'], async (s) => {
    const [nodes, results] = await Promise.all([
      get<{ nodes: JobNode[] }>(`${path}/nodes`, { node }, s), get<{ results: JobNode[] }>(`${path}/results`, { node }, s),
    ])
    return { node: nodes.nodes[0], result: results.results[0]?.data }
  }, mine)
  const why = useExplain('node', k.name, { domain: k.domain, node }, ['node'], mine)
  if (error) return <Failure of={error} />
  const x = data?.node
  const target = `node ${node} of job ${job}`
  return (
    <>
      <Head kind="node" name={node} state={x?.state ?? (data ? 'absent' : '')} back={[`job ${job}`, jobHref(k)]}>
        {x?.state === 'failed' && <Act after={refresh} of={{ name: 'Retry…', title: `Retry ${target}?`, target, method: 'POST', path: `${path}/retry`, text: 'It runs again, with all retries.', body: () => ({ node }), done: `${target} runs again` }} />}
        {x?.state === 'running' && <Act after={refresh} of={{ name: 'Kill…', title: `Kill ${target}?`, target: `${target}, invocation ${x.invocation}`, method: 'POST', path: `${path}/kill`, danger: true, text: 'Its process is ended now. It may be retried.', body: () => ({ node }), done: `${target} is being ended` }} />}
      </Head>
      {x && <Facts list={[
        ['path', <code>{x.path.slice(1).join(' › ')}</code>],
        ['errors', x.errors], ['losses', x.losses], ['attempts', <Attempts job={k} node={x} />],
        ['exit', x.signal ? `signal ${x.signal}` : x.state === 'ready' ? '–' : x.exit_code],
        ['cell', <CellName name={x.cell} />],
        ['changed', <When at={x.since ?? x.time} short />],
        ['invocation', <code>{x.invocation || '–'}</code>],
      ]} />}
      <Why of={why.data} />
      {data?.result != null && <Json title="Result" value={data.result} open />}
      <LastLines of={why.data} params={{ domain: k.domain, job: k.name, node }} />
      <History of={why.data} />
    </>
  )
}
