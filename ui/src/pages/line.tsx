// A line of output. Its bytes become text nodes and nothing else: no markup in it is ever interpreted,
// and bytes that are no readable text are shown by number.
import { memo } from './memo'
import { When } from '../time'
import type { Line } from '../types'

// Sequences that only colour or move the cursor are left out.
const ansi = /\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g
// Control characters, and those that change the direction or hide text.
const unreadable = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g

export function partsOf(l: Line): { text: string; odd: boolean }[] {
  return !l.raw ? ofText(l.text.replace(ansi, '').replace(/\r$/, '')) : ofBytes(Uint8Array.from(atob(l.raw), (c) => c.charCodeAt(0)))
}

function ofText(text: string): { text: string; odd: boolean }[] {
  const out: { text: string; odd: boolean }[] = []
  let at = 0
  for (const m of text.matchAll(unreadable)) {
    if (m.index > at) out.push({ text: text.slice(at, m.index), odd: false })
    const code = m[0].codePointAt(0)!
    out.push({ text: code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`, odd: true })
    at = m.index + m[0].length
  }
  if (at < text.length) out.push({ text: text.slice(at), odd: false })
  return out
}

// ofBytes decodes the valid parts of a line and shows the other bytes as \xNN.
function ofBytes(bytes: Uint8Array): { text: string; odd: boolean }[] {
  const strict = new TextDecoder('utf-8', { fatal: true })
  const out: { text: string; odd: boolean }[] = []
  let good: number[] = []
  const flush = () => {
    if (good.length) out.push(...ofText(new TextDecoder().decode(new Uint8Array(good)).replace(ansi, '')))
    good = []
  }
  for (let i = 0; i < bytes.length; ) {
    const b = bytes[i]!
    const n = b < 0x80 ? 1 : b >= 0xc2 && b < 0xe0 ? 2 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xf0 && b < 0xf5 ? 4 : 0
    const part = bytes.subarray(i, i + n)
    let valid = n > 0 && part.length === n
    if (valid && n > 1) {
      try {
        strict.decode(part)
      } catch {
        valid = false
      }
    }
    if (valid) good.push(...part)
    else {
      flush()
      out.push({ text: `\\x${b.toString(16).padStart(2, '0')}`, odd: true })
    }
    i += valid ? n : 1
  }
  flush()
  return out
}

export const LineText = memo(function LineText({ of: l, times = true, sources = true, marked = false, to = '' }: { of: Line; times?: boolean; sources?: boolean; marked?: boolean; to?: string }) {
  if (l.gap) return <div class="line gap">… {l.gap.bytes ?? ''} bytes of output were dropped here …</div>
  return (
    <div class={'line' + (l.stream === 'stderr' ? ' err' : l.stream === 'event' ? ' event' : '') + (marked ? ' marked' : '')}>
      {times && (to ? <a class="at" href={to}><When at={l.time} short fraction /></a> : <span class="at"><When at={l.time} short fraction /></span>)}
      {sources && <span class={'src c' + hue(l.source)}>{l.source}</span>}
      {l.stream === 'stderr' && <span class="sr">stderr</span>}
      <span class="txt">{partsOf(l).map((p, i) => p.odd ? <span key={i} class="odd">{p.text}</span> : p.text)}</span>
      {l.unterminated && <span class="odd" title="the line has no end yet">⏎̸</span>}
    </div>
  )
})

// hue is one of six colours of a source.
function hue(s: string): number {
  let h = 0
  for (let i = 0; i < s.length; i++) h = (h * 31 + s.charCodeAt(i)) >>> 0
  return h % 6
}
