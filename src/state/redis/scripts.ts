import { script } from "./link.ts";

/*
 * The scripts use the server's clock, so that processes with wrong clocks agree. A limit is a hash of time slots. Slots that have
 * left the window are deleted when the limit is next read, and so are those far in the future, which remain after the server's
 * clock was set back. Everything has a time to live, so what is no longer used disappears.
 */
const clock = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`;

/**
 * Keys: one for each request, one for each slot lease, then those with released slots. Values: slotMs, slots, the number of requests
 * and of slot leases; limit, need, wish and sharers of each request; of each slot lease its limit, its life, the number of
 * concurrency slots and their names; then the number and the names of released slots, which are freed first. Returns 1, the
 * current time slot, amount and rest of each request, and the number of concurrency slots taken of each lease; or 0, the index of
 * the key without room, the wait, and the rest. Nothing is written before everything is known to have room. Leases that have ended
 * are removed only where there is no room, and the time to live is renewed only now and then, because every command counts.
 */
export const takeScript = script(`${clock}
local slotMs, slots, wants, places = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local slot = math.floor(now / slotMs)
local answer = {1, slot}
local amounts = {}
if #KEYS > wants + places then
  local at = 4 * wants + 5
  for _ = 1, places do at = at + 3 + tonumber(ARGV[at + 2]) end
  for k = wants + places + 1, #KEYS do
    local names = tonumber(ARGV[at])
    redis.call('ZREM', KEYS[k], unpack(ARGV, at + 1, at + names))
    at = at + 1 + names
  end
end
for w = 1, wants do
  local at = 4 * w + 1
  local limit, need, wish, sharers = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local fields = redis.call('HGETALL', KEYS[w])
  local used, counted = 0, {}
  for f = 1, #fields, 2 do
    local when, amount = tonumber(fields[f]), tonumber(fields[f + 1])
    if not when or not amount or when <= slot - slots or when > slot + slots then
      redis.call('HDEL', KEYS[w], fields[f])
    else
      used = used + amount
      counted[#counted + 1] = {when, amount}
    end
  end
  local rest = limit - used
  if rest < need then
    local wait = slots * slotMs
    if need <= limit then
      table.sort(counted, function(a, b) return a[1] < b[1] end)
      local short = need - rest
      for _, one in ipairs(counted) do
        short = short - one[2]
        if short <= 0 then
          wait = (one[1] + slots) * slotMs - now
          break
        end
      end
    end
    return {0, w, wait, math.max(0, rest)}
  end
  local amount = math.max(need, math.min(wish, math.floor(rest / sharers)))
  amounts[w] = amount
  answer[#answer + 1] = amount
  answer[#answer + 1] = rest - amount
end
local at = 4 * wants + 5
local leases = {}
for k = wants + 1, wants + places do
  local key, limit, life, asked = KEYS[k], tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local taken = redis.call('ZCARD', key)
  if taken + asked > limit and redis.call('ZREMRANGEBYSCORE', key, '-inf', now) > 0 then
    taken = redis.call('ZCARD', key)
  end
  if taken >= limit and not redis.call('ZSCORE', key, ARGV[at + 3]) then
    return {0, k, 0, 0}
  end
  local names = {}
  for place = 1, math.max(1, math.min(asked, limit - taken)) do
    names[#names + 1] = now + life
    names[#names + 1] = ARGV[at + 2 + place]
  end
  leases[#leases + 1] = {key, names, life, taken}
  answer[#answer + 1] = #names / 2
  at = at + 3 + asked
end
for _, lease in ipairs(leases) do
  redis.call('ZADD', lease[1], unpack(lease[2]))
  if lease[4] == 0 or now % 16 == 0 then redis.call('PEXPIRE', lease[1], 20 * lease[3]) end
end
for w = 1, wants do
  redis.call('HINCRBY', KEYS[w], slot, amounts[w])
  redis.call('PEXPIRE', KEYS[w], (slots + 1) * slotMs)
end
return answer
`);

/**
 * Values: slotMs, slots; then for each key the number of its corrections, and of each of them the time slot (empty: the current one,
 * negative: so many slots before it) and the amount.
 */
export const correctScript = script(`${clock}
local slotMs, slots = tonumber(ARGV[1]), tonumber(ARGV[2])
local newest = math.floor(now / slotMs)
local at = 3
for _, key in ipairs(KEYS) do
  local last = at + 2 * tonumber(ARGV[at])
  for place = at + 1, last, 2 do
    local slot, by = tonumber(ARGV[place]) or newest, tonumber(ARGV[place + 1])
    if slot < 0 then slot = newest + slot end
    if slot > newest - slots and slot <= newest + slots then
      local before = tonumber(redis.call('HGET', key, slot)) or 0
      local after = math.max(0, before + by)
      if after > 0 then
        redis.call('HSET', key, slot, string.format('%.0f', after))
      elseif before > 0 then
        redis.call('HDEL', key, slot)
      end
    end
  end
  redis.call('PEXPIRE', key, (slots + 1) * slotMs)
  at = last + 1
end
return 1
`);

/** Values: for each key the life of its leases, their number and the names of their calls. */
export const renewScript = script(`${clock}
local at = 1
for _, key in ipairs(KEYS) do
  local life, last = tonumber(ARGV[at]), at + 1 + tonumber(ARGV[at + 1])
  for place = at + 2, last do
    redis.call('ZADD', key, now + life, ARGV[place])
  end
  redis.call('PEXPIRE', key, 20 * life)
  at = last + 1
end
return 1
`);

/** Values: for each key the number and the names of the calls whose slots are free. */
export const releaseScript = script(`
local at = 1
for _, key in ipairs(KEYS) do
  local last = at + tonumber(ARGV[at])
  redis.call('ZREM', key, unpack(ARGV, at + 1, last))
  at = last + 1
end
return 1
`);

/** Value: what the names of the calls begin with that are removed. */
export const forgetScript = script(`
for _, key in ipairs(KEYS) do
  for _, call in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    if string.sub(call, 1, #ARGV[1]) == ARGV[1] then redis.call('ZREM', key, call) end
  end
end
return 1
`);

/** Values: process, how long ago a process may have been seen to count. Returns the number of processes. */
export const heartbeatScript = script(`${clock}
local within = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. (now - within))
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + within, '+inf')
redis.call('PEXPIRE', KEYS[1], within)
return redis.call('ZCARD', KEYS[1])
`);

/** Values: hint, how long it is valid, the maximum number of hints. Returns the time at which it ends. */
export const publishHintScript = script(`${clock}
local ends = now + tonumber(ARGV[2])
local known = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]))
if known and known >= ends then return string.format('%.0f', ends) end
redis.call('ZADD', KEYS[1], ends, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -1 - tonumber(ARGV[3]))
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
redis.call('PEXPIRE', KEYS[1], math.max(1, math.floor(last[2] - now)))
return string.format('%.0f', ends)
`);

/** Values: the maximum number. Returns the current time, then pairs of a hint and the time at which it ends. */
export const readHintsScript = script(`${clock}
local found = redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', '(' .. now, 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[1]))
table.insert(found, 1, string.format('%.0f', now))
return found
`);
