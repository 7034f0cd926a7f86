// Output: a page of lines, older ones on demand, new ones as they come.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { download, get, Problem, stream, type Params } from '../api'
import { number } from '../format'
import { Failure, Panel } from '../parts'
import { href, setParam } from '../route'
import type { Line, OutputBatch, OutputPage } from '../types'
import { LineText } from './line'

const page = 500
const kept = 5000 // lines in the page: the other end is dropped

// Item is a line with a number, so that lines before it can be added.
interface Item { n: number; line: Line }

export function Output({ params }: { params: URLSearchParams }) {
  const q: Params = {}
  for (const k of ['domain', 'service', 'index', 'task', 'job', 'node', 'container', 'attempt', 'stream', 'grep']) q[k] = params.get(k) ?? ''
  const key = JSON.stringify(q)
  const name = q.task ? `task ${q.task}` : q.job ? `job ${q.domain}/${q.job}` + (q.node ? ` node ${q.node}` : '') : `${q.domain}/${q.service}` + (q.index ? `/${q.index}` : '')
  const back = q.task ? href('task', [String(q.task)]) : q.job ? (q.node ? href('node', [String(q.domain), String(q.job), String(q.node)]) : href('job', [String(q.domain), String(q.job)])) : href('service', [String(q.domain), String(q.service)])
  return <Viewer key={key} query={q} name={name} back={back} />
}

function useOutput(query: Params, following: boolean) {
  const [items, setItems] = useState<Item[]>([])
  const [info, setInfo] = useState<{ loaded: boolean; end: boolean; missing: string[]; error: Problem | null; older: boolean }>({ loaded: false, end: false, missing: [], error: null, older: false })
  const at = useRef({ first: 0, last: 0, previous: '', next: '', busy: false })
  const append = (lines: Line[]) => setItems((old) => {
    const more = [...old, ...lines.map((line) => ({ n: at.current.last++, line }))]
    return more.length > kept ? more.slice(-kept) : more
  })
  const fail = (e: unknown) => setInfo((i) => ({ ...i, loaded: true, error: e instanceof Problem ? e : new Problem('internal', String(e)) }))
  useEffect(() => {
    const over = new AbortController()
    get<OutputPage>('/output', { ...query, tail: page, limit: page }, over.signal).then((p) => {
      at.current.previous = p.previous
      at.current.next = p.next
      append(p.lines)
      setInfo((i) => ({ ...i, loaded: true, missing: p.missing, older: p.lines.length >= page }))
    }).catch((e) => over.signal.aborted || fail(e))
    return () => over.abort()
  }, [])
  useEffect(() => {
    if (!info.loaded || !following || info.end || info.error) return
    const over = new AbortController()
    let waiting: Line[] = []
    let frame = 0
    const flush = () => {
      frame = 0
      append(waiting)
      waiting = []
    }
    const run = async () => {
      for (let wait = 500; !over.signal.aborted; wait = Math.min(8000, wait * 2)) {
        try {
          for await (const b of stream<OutputBatch>('/output', { ...query, follow: true, cursor: at.current.next }, over.signal)) {
            at.current.next = b.cursor || at.current.next
            waiting.push(...b.lines)
            if (waiting.length && !frame) frame = requestAnimationFrame(flush)
            if (b.end) return setInfo((i) => ({ ...i, end: true }))
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
  }, [info.loaded, following, info.end, info.error])
  const older = async () => {
    if (at.current.busy) return
    at.current.busy = true
    try {
      const p = await get<OutputPage>('/output', { ...query, backward: true, cursor: at.current.previous, limit: page })
      at.current.previous = p.previous
      const lines = p.lines.map((line, i) => ({ n: at.current.first - p.lines.length + i, line }))
      at.current.first -= p.lines.length
      setItems((old) => [...lines, ...old].slice(0, Math.max(kept, lines.length)))
      setInfo((i) => ({ ...i, older: p.lines.length > 0 && p.more }))
    } catch (e) {
      fail(e)
    }
    at.current.busy = false
  }
  return { items, ...info, older, hasOlder: info.older }
}

function Viewer({ query, name, back }: { query: Params; name: string; back: string }) {
  const [following, setFollowing] = useState(true)
  const [times, setTimes] = useState(true)
  const [wrap, setWrap] = useState(true)
  const box = useRef<HTMLDivElement>(null)
  const height = useRef(0)
  const out = useOutput(query, following)
  const stderr = query.stream === 'stderr'
  useLayoutEffect(() => {
    const b = box.current
    if (!b) return
    if (following) b.scrollTop = b.scrollHeight
    else if (height.current) b.scrollTop += b.scrollHeight - height.current
    height.current = 0
  }, [out.items, following])
  const scrolled = () => {
    const b = box.current
    if (!b) return // a scroll of the page before
    const atEnd = b.scrollHeight - b.scrollTop - b.clientHeight < 24
    if (!atEnd && following) setFollowing(false)
    else if (atEnd && !following && !out.end) setFollowing(true)
  }
  const older = () => {
    setFollowing(false)
    height.current = box.current?.scrollHeight ?? 0
    void out.older()
  }
  const many = query.service ? query.index === '' : query.job ? !query.node : false
  return (
    <div class="output">
      <h1><span class="dim">output of</span> <a href={back}>{name}</a></h1>
      <form class="toolbar" role="search" onSubmit={(e) => { e.preventDefault(); setParam('grep', String(new FormData(e.currentTarget).get('grep') ?? '')) }}>
        <input class="filter" type="search" name="grep" data-filter aria-label="Search output by regular expression" placeholder="search: regular expression   /" defaultValue={String(query.grep ?? '')} />
        <button type="submit">Search</button>
        <button type="button" aria-pressed={stderr} onClick={() => setParam('stream', stderr ? '' : 'stderr')}>stderr only</button>
        <button type="button" aria-pressed={times} onClick={() => setTimes(!times)}>times</button>
        <button type="button" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>wrap</button>
        <button type="button" aria-pressed={following && !out.end} disabled={out.end} onClick={() => setFollowing(!following)}>{out.end ? 'ended' : 'follow'}</button>
        <button type="button" onClick={() => void download(query, name.replace(/[^\w.-]+/g, '_') + '.log')}>Download</button>
      </form>
      {out.error && <Failure of={out.error} />}
      {out.missing.length > 0 && <p class="notice warn">Without the output of silent cells: {out.missing.join(', ')}</p>}
      <Panel title="Lines" count={number(out.items.length)} extra={out.hasOlder && <button type="button" onClick={older}>Older lines</button>}>
        <div ref={box} class={'lines tall' + (wrap ? ' wrap' : '')} role="log" aria-live="off" aria-label={`Output of ${name}`} tabIndex={0} onScroll={scrolled}>
          {out.items.map((x) => <LineText key={x.n} of={x.line} times={times} sources={many} />)}
          {out.loaded && out.items.length === 0 && !out.error && <p class="empty">{query.grep ? 'no line matches' : 'no output yet'}</p>}
          {out.end && <p class="line event">end of output</p>}
        </div>
      </Panel>
    </div>
  )
}
