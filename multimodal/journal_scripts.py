"""What Redis does in one piece for the journal: Lua, run by Redis itself, so that nothing comes in between.

A session is two keys. `events` is a stream of bundles: a bundle that ends with `seq` has the id ``0-<seq + 1>`` (Redis
has no 0-0), so Redis itself refuses a bundle that is there, and `seq` says where to look. Its fields: `t`, when it was
appended in milliseconds of Redis' clock; `n`, how many events; `e`, a MessagePack array of their JSON. `state` is a
hash: writer, epoch, `until` (when the lease ends), the bounds, and the snapshot.

- An epoch is the microsecond of Redis' clock at which it was given, or one more than the one before: so it rises even
  where Redis has forgotten the one before. A lease whose epoch is above the one that is known was given by a run of
  Redis that lost it since: it is the later one, and counts.
- INFO's `run_id` tells the runs of Redis apart: what is missing in the run in which a lease was given was dropped, or
  never there; in another, it may have been lost.
- Reading writes nothing, so that a Redis whose disk or memory is full still reads. What is too old is passed over by
  bisection, and removed by the next append.
- Works from Redis 6.2 on (XTRIM MINID). A script's writes reach the file as one transaction, which is loaded whole or
  not at all.
"""

from __future__ import annotations

__all__ = ["APPEND", "ENDS", "MARK", "OPEN", "READ", "RELEASE"]

# Every script: KEYS = state, events; ARGV[1] = the time in ms, "" = Redis' own.
_COMMON = """
local state, events = KEYS[1], KEYS[2]

local function whole(number) return string.format('%.0f', number) end
local function id(seq) return '0-' .. whole(seq + 1) end

local function now()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function run()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end

local function bundle(item)
  if not item then return nil end
  local last, fields = tonumber(string.sub(item[1], 3)) - 1, item[2]
  return {last = last, first = last - fields[4] + 1, t = tonumber(fields[2]), n = fields[4], e = fields[6]}
end

local function newest() return bundle(redis.call('XREVRANGE', events, '+', '-', 'COUNT', 1)[1]) end
local function ending(from) return bundle(redis.call('XRANGE', events, from, '+', 'COUNT', 1)[1]) end

-- The oldest bundle that is young enough, and the newest one, which always is.
local function kept(at)
  local top = newest()
  if not top then return nil end
  local since = at - (redis.call('HGET', state, 'keep_ms') or math.huge)
  local low = ending('-')
  if low.t >= since then return low, top end
  local old, young, found = low.last, top.last, top
  while young - old > 1 do
    local middle = math.floor((old + young) / 2)
    local there = ending(id(middle))
    if there.t >= since or there.last == top.last then
      young, found = middle, there
    else
      old = there.last
    end
  end
  return found, top
end
"""

# ARGV: 2 writer, 3 epoch, 4 run, 5 lease in ms, 6 time to live in ms.
_OWNED = """
local function refused()
  local held = redis.call('HMGET', state, 'writer', 'epoch')
  if not held[2] then return run() == ARGV[4] and {'gone'} or {'forgotten'} end
  local given, known = tonumber(ARGV[3]), tonumber(held[2])
  if given > known and run() ~= ARGV[4] then
    redis.call('HSET', state, 'writer', ARGV[2], 'epoch', ARGV[3])
  elseif given ~= known or held[1] ~= ARGV[2] then
    return {'lost', held[1]}
  end
end

local function hold(at)
  redis.call('HSET', state, 'until', whole(at + ARGV[5]))
  redis.call('PEXPIRE', state, ARGV[6])
  redis.call('PEXPIRE', events, ARGV[6])
end
"""

OPEN = (
    _COMMON
    + """
local writer, lease, ttl, keep_events, keep_ms = unpack(ARGV, 2)
local at = now()
local held = redis.call('HMGET', state, 'writer', 'epoch', 'until')
if held[1] and held[1] ~= writer and at < tonumber(held[3]) then
  return {'held', held[1], whole(held[3] - at)}
end
local t = redis.call('TIME')
local epoch = whole(math.max(t[1] * 1000000 + t[2], (held[2] or 0) + 1))
redis.call('HSET', state, 'writer', writer, 'epoch', epoch, 'until', whole(at + lease),
  'keep_events', keep_events, 'keep_ms', keep_ms)
redis.call('PEXPIRE', state, ttl)
redis.call('PEXPIRE', events, ttl)
return {'ok', epoch, run()}
"""
)

# ARGV from 7: first, count and events of each bundle; none = only the lease is held.
APPEND = (
    _COMMON
    + _OWNED
    + """
local no = refused()
if no then return no end
local at = now()
local low, top = kept(at)
local first, last = low and low.first, top and top.last or -1
local fresh, by_end = {}, {}
for i = 7, #ARGV, 3 do
  local begins, count, e = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local ends = begins + count - 1
  if begins == last + 1 or not first and run() == ARGV[4] then
    first, last = first or begins, ends
    by_end[ends] = {last = ends, n = count, e = e}
    fresh[#fresh + 1] = by_end[ends]
  elseif begins > last + 1 then
    return {run() == ARGV[4] and 'hole' or 'forgotten', whole(begins), whole(last)}
  elseif ends >= first then
    local there = by_end[ends] or bundle(redis.call('XRANGE', events, id(ends), id(ends))[1])
    if not there or there.n ~= count or there.e ~= e then return {'conflict', whole(begins)} end
  end
end
for i = 1, #fresh do
  redis.call('XADD', events, id(fresh[i].last), 't', whole(at), 'n', fresh[i].n, 'e', fresh[i].e)
end
if #fresh > 0 then
  low, top = kept(at)
  local from = top.last - redis.call('HGET', state, 'keep_events') + 1
  if low.first < from then
    low = ending(id(from))
    if low.first < from and low.last < top.last then low = ending(id(low.last + 1)) end
  end
  redis.call('XTRIM', events, 'MINID', id(low.last))
end
hold(at)
return {'ok'}
"""
)

MARK = (
    _COMMON
    + _OWNED
    + """
local no = refused()
if no then return no end
redis.call('HSET', state, 'mark_seq', ARGV[7], 'mark', ARGV[8])
hold(now())
return {'ok'}
"""
)

RELEASE = (
    _COMMON
    + _OWNED
    + """
local no = refused()
if no then return no end
redis.call('HSET', state, 'until', whole(now()))
return {'ok'}
"""
)

# ARGV: 2 after, 3 limit.
READ = (
    _COMMON
    + """
local after, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local low, top = kept(now())
if not top or after >= top.last then return {'ok'} end
if after + 1 < low.first then return {'gap', whole(low.first)} end
local given, count = {'ok'}, 0
for _, item in ipairs(redis.call('XRANGE', events, id(after + 1), '+', 'COUNT', limit)) do
  if count >= limit then break end
  local there = bundle(item)
  given[#given + 1] = whole(there.last)
  given[#given + 1] = there.e
  count = count + there.n
end
return given
"""
)

ENDS = (
    _COMMON
    + """
local low, top = kept(now())
if not top then return {'ok', '0', '-1'} end
return {'ok', whole(low.first), whole(top.last)}
"""
)
