// Output: a window of lines that moves over the whole output. Older and newer lines are read as it is scrolled, and new
// ones come as they are written.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { download, get, Problem, stream, type Params } from '../api'
import { number } from '../format'
import { Failure, Panel } from '../parts'
import { href, setParam } from '../route'
import type { Line, OutputBatch, OutputPage } from '../types'
import { LineText } from './line'

const size = 250 // lines of the first page
const more = 100 // lines of another one: more at once make a frame late
const kept = 1000 // lines of the window: pages at the other end are dropped
const above = 100 // lines before the one of a link
const start = '1' // the position before all lines

// Part is a page of the window, with the places before and after it. n is the number of its first line: a line keeps
// its element while others come before it.
interface Part { n: number; lines: Line[]; previous: string; next: string }

interface Info { loaded: boolean; end: boolean; missing: string[]; error: Problem | null; older: boolean; newer: boolean }

export function Output({ params }: { params: URLSearchParams }) {
  const q: Params = {}
  for (const k of ['domain', 'service', 'index', 'task', 'job', 'node', 'container', 'attempt', 'stream', 'grep']) q[k] = params.get(k) ?? ''
  const at = params.get('at') ?? ''
  const [turn, setTurn] = useState(0)
  const name = q.task ? `task ${q.task}` : q.job ? `job ${q.domain}/${q.job}` + (q.node ? ` node ${q.node}` : '') : `${q.domain}/${q.service}` + (q.index ? `/${q.index}` : '')
  const back = q.task ? href('task', [String(q.task)]) : q.job ? (q.node ? href('node', [String(q.domain), String(q.job), String(q.node)]) : href('job', [String(q.domain), String(q.job)])) : href('service', [String(q.domain), String(q.service)])
  const jump = (to: string) => {
    setTurn(turn + 1)
    setParam('at', to)
  }
  return <Viewer key={JSON.stringify([q, at, turn])} query={q} at={at} jump={jump} name={name} back={back} />
}

// read reads a page. An empty one with more to come has looked at much that does not match.
async function read(params: Params, signal?: AbortSignal): Promise<OutputPage> {
  for (;;) {
    const p = await get<OutputPage>('/output', params, signal)
    if (p.lines.length > 0 || !p.more) return p
    params = { ...params, cursor: params.backward || params.tail ? p.previous : p.next }
  }
}

function useOutput(query: Params, at: string, following: boolean, changing: () => void) {
  const [parts, setParts] = useState<Part[]>([])
  const [info, setInfo] = useState<Info>({ loaded: false, end: false, missing: [], error: null, older: false, newer: false })
  const now = useRef({ parts, busy: false, over: new AbortController() })
  const show = (list: Part[]) => {
    changing()
    now.current.parts = list
    setParts(list)
  }
  const put = (change: Partial<Info>) => setInfo((i) => ({ ...i, ...change }))
  const fail = (e: unknown) => now.current.over.signal.aborted || put({ loaded: true, error: e instanceof Problem ? e : new Problem('internal', String(e)) })
  const append = (lines: Line[], next: string) => {
    const list = [...now.current.parts]
    const last = list[list.length - 1]!
    if (last.lines.length + lines.length <= size) list[list.length - 1] = { ...last, lines: [...last.lines, ...lines], next }
    else list.push({ n: last.n + last.lines.length, lines, previous: last.next, next })
    const all = list.length
    while (list.length > 1 && count(list) > kept) list.shift()
    if (list.length < all) put({ older: true })
    show(list)
  }
  useEffect(() => {
    const { signal } = now.current.over
    const load = async () => {
      if (!at) {
        const p = await read({ ...query, tail: size }, signal)
        show([{ n: 0, lines: p.lines, previous: p.previous, next: p.next }])
        return put({ loaded: true, missing: p.missing, older: p.more })
      }
      const [p, b] = await Promise.all([
        read({ ...query, at, limit: size }, signal), at === start ? null : read({ ...query, at, backward: true, limit: above }, signal),
      ])
      show([...(b?.lines.length ? [{ n: -b.lines.length, lines: b.lines, previous: b.previous, next: b.next }] : []), { n: 0, lines: p.lines, previous: p.previous, next: p.next }])
      put({ loaded: true, missing: p.missing, older: b?.more ?? false, newer: p.more })
    }
    load().catch(fail)
    return () => now.current.over.abort()
  }, [])
  useEffect(() => {
    if (!info.loaded || !following || info.newer || info.end || info.error) return
    const over = new AbortController()
    let waiting: Line[] = []
    let next = now.current.parts[now.current.parts.length - 1]!.next
    let frame = 0
    const flush = () => {
      frame = 0
      append(waiting, next)
      waiting = []
    }
    const run = async () => {
      for (let wait = 500; !over.signal.aborted; wait = Math.min(8000, wait * 2)) {
        try {
          for await (const b of stream<OutputBatch>('/output', { ...query, follow: true, cursor: next }, over.signal)) {
            next = b.cursor || next
            waiting.push(...b.lines)
            if (waiting.length && !frame) frame = requestAnimationFrame(flush)
            if (b.end) return put({ end: true })
            wait = 500
          }
        } catch (e) {
          if (over.signal.aborted) return
          if (e instanceof Problem && !['no_connection', 'not_leader', 'busy', 'stream_ended', 'term_over'].includes(e.code)) return fail(e)
        }
        await new Promise((done) => setTimeout(done, wait))
      }
    }
    void run()
    return () => {
      over.abort()
      if (frame) {
        cancelAnimationFrame(frame)
        flush()
      }
    }
  }, [info.loaded, following, info.newer, info.end, info.error])
  const page = async (older: boolean) => {
    const w = now.current
    if (w.busy || !w.parts.length || !(older ? info.older : info.newer)) return
    w.busy = true
    try {
      const cursor = older ? w.parts[0]!.previous : w.parts[w.parts.length - 1]!.next
      const p = await read({ ...query, backward: older, cursor, limit: more }, w.over.signal)
      const list = [...w.parts]
      const first = list[0]!, last = list[list.length - 1]!
      let dropped = false
      if (p.lines.length && older) list.unshift({ n: first.n - p.lines.length, lines: p.lines, previous: p.previous, next: p.next })
      else if (p.lines.length) list.push({ n: last.n + last.lines.length, lines: p.lines, previous: p.previous, next: p.next })
      for (; list.length > 1 && count(list) > kept; dropped = true) older ? list.pop() : list.shift()
      show(list)
      put(older ? { older: p.more, ...(dropped && { newer: true }) } : { newer: p.more, ...(dropped && { older: true }) })
    } catch (e) {
      fail(e)
    }
    w.busy = false
  }
  return { parts, ...info, read: page }
}

const count = (list: Part[]) => list.reduce((n, p) => n + p.lines.length, 0)

function Viewer({ query, at, jump, name, back }: { query: Params; at: string; jump: (to: string) => void; name: string; back: string }) {
  const [following, setFollowing] = useState(!at)
  const [times, setTimes] = useState(true)
  const [wrap, setWrap] = useState(true)
  const box = useRef<HTMLDivElement>(null)
  const anchor = useRef<{ line: HTMLElement; offset: number } | null>(null)
  // hold remembers the first line that is shown and its place: it stays there while lines are added and dropped.
  const hold = () => {
    const b = box.current
    const r = b?.getBoundingClientRect()
    const line = r && document.elementFromPoint(r.left + 30, r.top + 30)?.closest<HTMLElement>('.lines > .line')
    anchor.current = b && line ? { line, offset: line.offsetTop - b.scrollTop } : null
  }
  const out = useOutput(query, at, following, hold)
  const stderr = query.stream === 'stderr'
  useLayoutEffect(() => {
    const b = box.current
    if (!b) return
    const a = anchor.current
    if (following) b.scrollTop = b.scrollHeight
    else if (a?.line.isConnected) b.scrollTop = a.line.offsetTop - a.offset
  }, [out.parts, following])
  useLayoutEffect(() => {
    const b = box.current
    const line = b?.querySelector<HTMLElement>('.marked')
    if (b && line) b.scrollTop = line.offsetTop - b.offsetTop - b.clientHeight / 3
  }, [out.loaded])
  const scrolled = () => {
    const b = box.current
    if (!b) return // a scroll of the page before
    const below = b.scrollHeight - b.scrollTop - b.clientHeight
    const atEnd = below < 24 && !out.newer
    if (!atEnd && following) setFollowing(false)
    else if (atEnd && !following && !out.end && out.loaded) setFollowing(true)
    if (following) return
    if (b.scrollTop < 3 * b.clientHeight) void out.read(true)
    else if (below < 3 * b.clientHeight) void out.read(false)
  }
  const older = () => {
    setFollowing(false)
    void out.read(true)
  }
  const follow = () => (out.newer ? jump('') : setFollowing(!following))
  const search = (text: string) => {
    if (at) setParam('at', '')
    setParam('grep', text)
  }
  const many = query.service ? query.index === '' : query.job ? !query.node : false
  const lines = out.parts.flatMap((p) => p.lines.map((line, i) => ({ n: p.n + i, line })))
  return (
    <div class="output">
      <h1><span class="dim">output of</span> <a href={back}>{name}</a></h1>
      <form class="toolbar" role="search" onSubmit={(e) => { e.preventDefault(); search(String(new FormData(e.currentTarget).get('grep') ?? '')) }}>
        <input class="filter" type="search" name="grep" data-filter aria-label="Search output by regular expression" placeholder="search: regular expression   /" defaultValue={String(query.grep ?? '')} />
        <button type="submit">Search</button>
        <button type="button" aria-pressed={stderr} onClick={() => setParam('stream', stderr ? '' : 'stderr')}>stderr only</button>
        <button type="button" aria-pressed={times} onClick={() => setTimes(!times)}>times</button>
        <button type="button" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>wrap</button>
        <button type="button" onClick={() => jump(start)}>start</button>
        <button type="button" onClick={() => jump('')}>end</button>
        <button type="button" aria-pressed={following && !out.end} disabled={out.end && !out.newer} onClick={follow}>{out.end && !out.newer ? 'ended' : 'follow'}</button>
        <button type="button" onClick={() => void download(query, name.replace(/[^\w.-]+/g, '_') + '.log')}>Download</button>
      </form>
      {out.error && <Failure of={out.error} />}
      {out.missing.length > 0 && <p class="notice warn">Without the output of silent cells: {out.missing.join(', ')}</p>}
      <Panel title="Lines" count={number(lines.length)} extra={out.older && <button type="button" onClick={older}>Older lines</button>}>
        <div ref={box} class={'lines tall' + (wrap ? ' wrap' : '')} role="log" aria-live="off" aria-label={`Output of ${name}`} aria-busy={!out.loaded} tabIndex={0} onScroll={scrolled}>
          {lines.map((x) => <LineText key={x.n} of={x.line} times={times} sources={many} marked={x.n === 0 && at !== '' && at !== start} to={href('output', [], { ...query, grep: '', at: x.line.position } as Record<string, string>)} />)}
          {out.loaded && lines.length === 0 && !out.error && <p class="empty">{query.grep ? 'no line matches' : 'no output yet'}</p>}
          {out.end && !out.newer && <p class="line event">end of output</p>}
        </div>
      </Panel>
    </div>
  )
}
