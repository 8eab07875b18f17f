-- The part of Wireshark's Lua API that the dissector uses, for a plain Lua interpreter: the Wireshark of the tests has
-- Lua 5.2, newer ones have Lua 5.4, in which numbers have two kinds.
--
--   lua5.4 wireshark_api.lua kafkaraw.lua < segments
--
-- Each line of the input is a packet: whether the client sent it (1 or 0), and its bytes in hex. Each value that the
-- dissector adds to the tree is printed as a line: the name of the field, a tab, the value in hex.

local unpack_integer = math.tointeger or function(number) return number end

local function integer(value)
  assert(type(value) == "number" and unpack_integer(value), "no integer: " .. tostring(value))
  return unpack_integer(value)
end

local function class(methods)
  methods.__index = methods
  return methods
end

local function hex(raw) return (raw:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)) end

local function number_of(raw, signed)
  local value = 0
  for at = 1, #raw do value = value * 256 + raw:byte(at) end
  if signed and raw:byte(1) >= 128 then value = value - 256 ^ #raw end
  return unpack_integer(value) or value
end

Int64 = class({
  __add = function(a, b) return setmetatable({ number = a.number + b.number }, Int64) end,
  __tostring = function(self) return ("%d"):format(self.number) end,
})
function Int64.new(low, high)
  low, high = integer(low), integer(high)
  assert(low >= 0 and low < 4294967296 and high >= 0 and high < 4294967296)
  if high >= 2147483648 then high = high - 4294967296 end
  return setmetatable({ number = high * 4294967296 + low }, Int64)
end
function Int64:tonumber() return self.number end

local Tvb, Range
local function tvb_of(data) return setmetatable({ data = data, from = 0, size = #data }, Tvb) end

Range = class({
  raw = function(self) return self.data:sub(self.from + 1, self.from + self.size) end,
  int = function(self) return number_of(self:raw(), true) end,
  uint = function(self) return number_of(self:raw(), false) end,
  int64 = function(self) return setmetatable({ number = number_of(self:raw(), true) }, Int64) end,
  len = function(self) return self.size end,
  tvb = function(self) return tvb_of(self:raw()) end,
  bytes = function(self) return { tohex = function() return hex(self:raw()) end } end,
})
TvbRange = {}

Tvb = class({
  len = function(self) return self.size end,
  offset = function(self) return self.from end,
  __call = function(self, from, size)
    from, size = integer(from or 0), integer(size or self.size)
    assert(from >= 0 and size >= 0 and from + size <= self.size, "out of bounds")
    return setmetatable({ data = self.data, from = self.from + from, size = size }, Range)
  end,
})

ByteArray = { new = function(raw, is_raw)
  assert(is_raw)
  return { tvb = function() return tvb_of(raw) end }
end }
NSTime = { new = function(seconds, nanoseconds) return { integer(seconds), integer(nanoseconds) } end }

local function raw_value(range, value)
  if value == nil then return range:raw() end
  return type(value) == "number" and ("%d"):format(value) or tostring(value)
end

local Tree
Tree = class({
  add = function(self, field, range, value)
    assert(field.name or getmetatable(range) == Range)
    if field.name then io.write(field.name, "\t", hex(raw_value(range, value)), "\n") end
    return setmetatable({}, Tree)
  end,
  add_packet_field = function(self, field, range) return self:add(field, range) end,
  add_proto_expert_info = function(_, info, text) io.write(info.name, "\t", hex(text), "\n") end,
  set_text = function(self) return self end,
  append_text = function(self) return self end,
  set_generated = function(self) return self end,
  set_len = function(_, size) assert(integer(size) >= 0) end,
})

local function any() return setmetatable({}, { __index = function(_, key) return key end }) end
base, frametype, ENC_UTF_8, DESEGMENT_ONE_MORE_SEGMENT = any(), any(), 2, -1
expert = { group = any(), severity = any() }
ProtoField = setmetatable({}, { __index = function() return function(name) return { name = name } end end })
ProtoExpert = { new = function(name) return { name = name } end }
Pref = { range = function(_, default) return default end, uint = function(_, default) return default end }
DissectorTable = { get = function() return { add = function() end, remove = function() end } end }

local dissector
function Proto(name) -- luacheck: ignore
  dissector = { prefs = {}, register_heuristic = function() end, of = name }
  return dissector
end

function dissect_tcp_pdus(tvb, tree, _, length_of, dissect)
  local at = 0
  while at < tvb:len() do
    local length = integer(length_of(tvb, dissector.pinfo, at))
    local pdu = setmetatable({ data = tvb.data, from = tvb.from + at, size = math.min(length, tvb.size - at) }, Tvb)
    dissect(pdu, dissector.pinfo, tree)
    at = at + length
  end
end

dofile(arg[1])
local number = 0
for line in io.lines() do
  local by_client, text = line:match("^(%d) (%x*)$")
  number = number + 1
  local client, server = { "10.0.0.1", 50000 }, { "10.0.0.2", 9092 }
  local from, to = by_client == "1" and client or server, by_client == "1" and server or client
  local info = { set = function() end, fence = function() end }
  dissector.pinfo = { number = number, visited = false, src = from[1], src_port = from[2], dst = to[1], dst_port = to[2],
    abs_ts = 1700000000.25 + number, can_desegment = 1, cols = { info = info } }
  local data = text:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)
  io.write("packet\t\n")
  dissector.dissector(tvb_of(data), dissector.pinfo, setmetatable({}, Tree))
end
