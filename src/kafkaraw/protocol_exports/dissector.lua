-- Dissector of Apache Kafka's protocol for Wireshark and tshark, 4.0 and newer.
--
--   tshark -X lua_script:kafkaraw.lua -r capture.pcapng
--   copy it to the folder "Personal Lua Plugins" (Wireshark: Help, About, Folders) to have it always
--
-- The schemas below are generated from the declarations of the project kafkaraw; `kafkaraw protocol export
-- --format wireshark` writes this file. The rest interprets them: it reads any API in any version by its schema.
-- An API or version without a schema is named, and its bytes are shown as bytes.

local kafka = Proto("kafkaraw", "Apache Kafka (kafkaraw)")

local FRAME_LIMIT = 100 * 1024 * 1024 -- socket.request.max.bytes of a broker
local ITEM_LIMIT = 200000 -- items that one frame adds to the tree
local INFLATED_LIMIT = 16 * 1024 * 1024 -- bytes of decompressed records in one frame
local LUA_INFLATED_LIMIT = 4 * 1024 * 1024 -- bytes of one batch, decompressed by this script
local API_VERSIONS, SASL_HANDSHAKE, PRODUCE, CONTROLLED_SHUTDOWN = 18, 17, 0, 7
local UNSUPPORTED_VERSION = 35
local BATCH_HEADER = 61

kafka.prefs.ports = Pref.range("TCP ports", "9092", "Ports of brokers. On other ports, Kafka is recognised by the first request.", 65535)
kafka.prefs.limit = Pref.uint("Largest frame in bytes", FRAME_LIMIT, "A larger size prefix is not taken for Kafka's.")

-- Fields ------------------------------------------------------------------------------------------------------------

local ERRORS, API_NAMES = {}, {}
--@names@

local APIS = {} -- by key
local fields = {} -- by the name of the filter

local function declare(abbreviation, make, ...)
  local name = "kafkaraw." .. abbreviation
  if not fields[name] then fields[name] = ProtoField[make](name, ...) end
  return fields[name]
end

local CODECS = { [0] = "none", "gzip", "snappy", "lz4", "zstd" }
local F = {
  size = declare("size", "int32", "size"),
  api_key = declare("api_key", "int16", "api_key", base.DEC, API_NAMES),
  api_version = declare("api_version", "int16", "api_version"),
  correlation_id = declare("correlation_id", "int32", "correlation_id"),
  client_id = declare("client_id", "string", "client_id"),
  request = declare("request", "none", "request"),
  response = declare("response", "none", "response"),
  response_in = declare("response_in", "framenum", "response in frame", base.NONE, frametype.RESPONSE),
  response_to = declare("response_to", "framenum", "response to frame", base.NONE, frametype.REQUEST),
  time = declare("time", "relative_time", "time since the request"),
  elements = declare("elements", "int32", "elements"),
  null = declare("null", "string", "null"),
  tagged_fields = declare("tagged_fields", "uint32", "tagged fields"),
  unknown_tag = declare("unknown_tag", "bytes", "unknown tagged field"),
  sasl_token = declare("sasl_token", "bytes", "SASL token"),
  undecoded = declare("undecoded", "bytes", "not decoded"),
  set = declare("batch", "none", "record batch"),
  base_offset = declare("batch.base_offset", "int64", "base_offset"),
  batch_length = declare("batch.batch_length", "int32", "batch_length"),
  partition_leader_epoch = declare("batch.partition_leader_epoch", "int32", "partition_leader_epoch"),
  magic = declare("batch.magic", "int8", "magic"),
  crc = declare("batch.crc", "uint32", "crc", base.HEX),
  attributes = declare("batch.attributes", "uint16", "attributes", base.HEX),
  codec = declare("batch.attributes.codec", "uint16", "compression", base.DEC, CODECS, 0x07),
  append_time = declare("batch.attributes.log_append_time", "bool", "LogAppendTime", 16, nil, 0x08),
  transactional = declare("batch.attributes.transactional", "bool", "transactional", 16, nil, 0x10),
  control = declare("batch.attributes.control", "bool", "control batch", 16, nil, 0x20),
  delete_horizon = declare("batch.attributes.delete_horizon", "bool", "delete horizon", 16, nil, 0x40),
  last_offset_delta = declare("batch.last_offset_delta", "int32", "last_offset_delta"),
  base_timestamp = declare("batch.base_timestamp", "int64", "base_timestamp"),
  max_timestamp = declare("batch.max_timestamp", "int64", "max_timestamp"),
  producer_id = declare("batch.producer_id", "int64", "producer_id"),
  producer_epoch = declare("batch.producer_epoch", "int16", "producer_epoch"),
  base_sequence = declare("batch.base_sequence", "int32", "base_sequence"),
  records_count = declare("batch.records_count", "int32", "records_count"),
  compressed = declare("batch.compressed", "bytes", "compressed records"),
  record = declare("record", "none", "record"),
  offset = declare("record.offset", "int64", "offset"),
  timestamp = declare("record.timestamp", "int64", "timestamp"),
  key = declare("record.key", "bytes", "key"),
  value = declare("record.value", "bytes", "value"),
  header_key = declare("record.header.key", "string", "key"),
  header_value = declare("record.header.value", "bytes", "value"),
}
local MALFORMED = ProtoExpert.new("kafkaraw.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local UNDECODED = ProtoExpert.new("kafkaraw.not_decoded", "Not decoded", expert.group.UNDECODED, expert.severity.NOTE)
local FAILED = ProtoExpert.new("kafkaraw.error", "Error code", expert.group.RESPONSE_CODE, expert.severity.NOTE)
kafka.experts = { MALFORMED, UNDECODED, FAILED }

-- Schemas -----------------------------------------------------------------------------------------------------------

local MAKERS = { -- wire type -> maker of its field, bytes of the value (0: has a length)
  bool = { "bool", 1 }, int8 = { "int8", 1 }, int16 = { "int16", 2 }, uint16 = { "uint16", 2 }, int32 = { "int32", 4 },
  uint32 = { "uint32", 4 }, int64 = { "int64", 8 }, float64 = { "double", 8 }, uuid = { "string", 16 },
  string = { "string", 0 }, bytes = { "bytes", 0 }, records = { "none", 0 }, struct = { "none", 0 },
}

local function versions(text) -- Kafka's notation: "3", "2-7", "5+", "none"
  if not text or text == "none" then return { 0, -1 } end
  local low = tonumber(text:match("^%d+"))
  if text:sub(-1) == "+" then return { low, math.huge } end
  return { low, tonumber(text:match("%-(%d+)$") or low) }
end

local function includes(range, version) return version >= range[1] and version <= range[2] end

local function make_field(path, name, type, doc)
  local make = MAKERS[type][1]
  if name:find("error_code$") then return declare(path, make, name, base.DEC, ERRORS, nil, doc) end
  if name == "api_key" then return declare(path, make, name, base.DEC, API_NAMES, nil, doc) end
  if make == "none" or make == "double" then return declare(path, make, name, doc) end
  if make == "string" or make == "bytes" then return declare(path, make, name, base.NONE, doc) end
  if make == "bool" then return declare(path, make, name, base.NONE, nil, nil, doc) end
  return declare(path, make, name, base.DEC, nil, nil, doc)
end

-- A field is { name, type, versions, fields of a structure...; null=, tag=, tagged=, path=, doc= }.
local function prepare(path, declared)
  local made = {}
  for i, one in ipairs(declared) do
    local name, type, is_array = one[1], one[2]:gsub("^%[%]", "")
    local field = {
      name = name, type = type, is_array = is_array > 0, size = MAKERS[type][2], path = path .. "." .. name,
      versions = versions(one[3]), null = versions(one.null), tag = one.tag, tagged = versions(one.tagged),
    }
    field.field = make_field(one.path or field.path, name, type, one.doc)
    if type == "struct" then
      field.plans, field.fields = {}, prepare(field.path, { table.unpack(one, 4) })
    end
    made[i] = field
  end
  return made
end

local function api(key, name, path, supported, flexible, request, response)
  APIS[key] = {
    key = key, name = name, versions = versions(supported), text = supported, flexible = versions(flexible),
    request = { plans = {}, fields = prepare(path, request) }, response = { plans = {}, fields = prepare(path, response) },
  }
end

--@schemas@

kafka.fields = fields

local function plan_of(structure, version) -- the fields of a structure in a version; the tagged ones by their tags
  local plan = structure.plans[version]
  if not plan then
    plan = { plain = {}, tagged = {} }
    for _, field in ipairs(structure.fields) do
      if includes(field.versions, version) then
        if field.tag and includes(field.tagged, version) then plan.tagged[field.tag] = field
        else plan.plain[#plan.plain + 1] = field end
      end
    end
    structure.plans[version] = plan
  end
  return plan
end

-- Values ------------------------------------------------------------------------------------------------------------
-- A walk `w` has: tvb, at, stop (end of the bytes), version, flexible, left (items that may still be added).

local function fail(w, text) error({ text = text, at = w.at }, 0) end

local function need(w, size, what)
  if size > w.stop - w.at then
    fail(w, ("%s needs %d bytes, %d are left"):format(what, size, math.max(0, w.stop - w.at)))
  end
end

local function take(w, size) -- the next bytes as a range
  w.left = w.left - 1
  if w.left < 0 then error({ limit = true, at = w.at }, 0) end
  w.at = w.at + size
  return w.tvb(w.at - size, size)
end

local function uvarint(w, what)
  local value, factor = 0, 1
  for _ = 1, 5 do
    need(w, 1, what)
    local byte = w.tvb(w.at, 1):uint()
    w.at = w.at + 1
    value, factor = value + byte % 128 * factor, factor * 128
    if byte < 128 then
      if value >= 4294967296 then fail(w, what .. " does not fit 32 bits") end
      return value
    end
  end
  fail(w, what .. " is longer than 5 bytes")
end

local function length(w, what, width, nullable)
  local size
  if w.flexible then
    size = uvarint(w, "the length of " .. what) - 1
  else
    need(w, width, "the length of " .. what)
    size = w.tvb(w.at, width):int()
    w.at = w.at + width
  end
  if size < -1 or (size == -1 and not nullable) then fail(w, ("length %d of %s"):format(size, what)) end
  return size
end

local function is_utf8(text)
  local at = 1
  while true do
    at = text:find("[\128-\255]", at)
    if not at then return true end
    local a, b, c, d = text:byte(at, at + 3)
    local function follows(byte) return byte and byte >= 0x80 and byte < 0xC0 end
    if a >= 0xC2 and a < 0xE0 and follows(b) then at = at + 2
    elseif a >= 0xE0 and a < 0xF0 and follows(b) and follows(c) and (a ~= 0xE0 or b >= 0xA0) and (a ~= 0xED or b < 0xA0) then
      at = at + 3
    elseif a >= 0xF0 and a < 0xF5 and follows(b) and follows(c) and follows(d) and (a ~= 0xF0 or b >= 0x90) and (a ~= 0xF4 or b < 0x90) then
      at = at + 4
    else return false end
  end
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

local function uuid_text(raw) -- as Kafka writes it: URL-safe base64 without padding
  local out = {}
  for at = 1, 16, 3 do
    local a, b, c = raw:byte(at, at + 2)
    local bits = a * 65536 + (b or 0) * 256 + (c or 0)
    for shift = 3, c and 0 or b and 1 or 2, -1 do
      local digit = math.floor(bits / 64 ^ shift) % 64
      out[#out + 1] = DIGITS:sub(digit + 1, digit + 1)
    end
  end
  return table.concat(out)
end

local function add_text(tree, field, range) return tree:add_packet_field(field, range, ENC_UTF_8) end

local function add_null(w, tree, field, start)
  tree:add(F.null, w.tvb(start, w.at - start), field.path):set_text(field.name .. ": null")
end

local read_batches, structure

local function report(w, tree, problem) -- of a frame that the capture has cut short, nothing is malformed
  tree:add_proto_expert_info(w.cut and UNDECODED or MALFORMED, ("at byte %d: %s"):format(problem.at, problem.text))
end

local function bytes_left(w, tree, text)
  if w.at >= w.stop then return end
  local item = tree:add(F.undecoded, w.tvb(w.at, w.stop - w.at))
  item:set_text(("%d bytes: %s"):format(w.stop - w.at, text))
  item:add_proto_expert_info(UNDECODED, text)
end

local function sized(w, field, nullable, tree) -- a string, bytes or records
  local start = w.at
  local size = length(w, field.name, field.type == "string" and 2 or 4, nullable)
  if size < 0 then return add_null(w, tree, field, start) end
  need(w, size, field.name)
  if field.type == "records" then
    local item = tree:add(field.field, w.tvb(start, w.at - start + size))
    item:append_text((": %d bytes"):format(size))
    w.left = w.left - 1
    local stop, outer = w.at + size, w.stop
    w.stop = stop
    local done, problem = pcall(read_batches, w, item)
    if not done then -- what follows the batches can be read all the same
      if type(problem) ~= "table" or problem.limit then error(problem, 0) end
      w.at, w.stop = problem.at, stop
      report(w, item, problem)
      bytes_left(w, item, problem.text)
    end
    w.at, w.stop = stop, outer
    return
  end
  local range = take(w, size)
  if field.type == "bytes" then return tree:add(field.field, range) end
  if size > 0 and not is_utf8(range:raw()) then
    w.at = w.at - size
    fail(w, field.name .. " is not UTF-8")
  end
  add_text(tree, field.field, range)
end

local function scalar(w, field, nullable, tree)
  if field.size == 0 then return sized(w, field, nullable, tree) end
  need(w, field.size, field.name)
  local range = take(w, field.size)
  if field.type == "uuid" then return tree:add(field.field, range, uuid_text(range:raw())) end
  local item = tree:add(field.field, range)
  if field.name:find("error_code$") and field.type == "int16" and range:int() ~= 0 then
    item:add_proto_expert_info(FAILED, "error " .. (ERRORS[range:int()] or range:int()))
  elseif field.name == "acks" then
    w.acks = range:int()
  elseif field.type == "int64" and (field.name:find("timestamp_ms$") or field.name:find("timestamp$")) then
    local ms = range:int64():tonumber()
    if ms > 0 and ms < 4e12 then item:append_text(os.date("! (%Y-%m-%d %H:%M:%S UTC)", math.floor(ms / 1000))) end
  end
end

local function value(w, field, nullable, tree, tagged)
  if not (field.is_array or field.type == "struct") then return scalar(w, field, nullable, tree) end
  local start = w.at
  if not field.is_array then
    if nullable then -- a byte before the structure; in a tagged field, Kafka writes 0 for null
      need(w, 1, field.name)
      local marker = w.tvb(w.at, 1):uint()
      w.at = w.at + 1
      if marker > 127 or (tagged and marker == 0) then return add_null(w, tree, field, start) end
    end
    local item = tree:add(field.field, w.tvb(start, 0))
    structure(w, field, item)
    return item:set_len(w.at - start)
  end
  local count = length(w, field.name, 4, nullable)
  if count < 0 then return add_null(w, tree, field, start) end
  local list = tree:add(F.elements, w.tvb(start, w.at - start), count)
  list:set_text(("%s: %d element%s"):format(field.name, count, count == 1 and "" or "s"))
  if count * math.max(1, field.size) > w.stop - w.at then
    fail(w, ("%s has %d elements, %d bytes are left"):format(field.name, count, w.stop - w.at))
  end
  for i = 1, count do
    if field.type == "struct" then
      local from = w.at
      take(w, 0)
      local item = list:add(field.field, w.tvb(from, 0))
      item:set_text("[" .. (i - 1) .. "]")
      structure(w, field, item)
      item:set_len(w.at - from)
    else
      scalar(w, field, false, list)
    end
  end
  list:set_len(w.at - start)
end

local function tagged_fields(w, known, tree)
  local start = w.at
  local count = uvarint(w, "the number of tagged fields")
  if count == 0 then return end
  local section = tree:add(F.tagged_fields, w.tvb(start, w.at - start), count)
  for _ = 1, count do
    local from = w.at
    local tag = uvarint(w, "a tag")
    local size = uvarint(w, "the length of a tagged field")
    need(w, size, "tagged field " .. tag)
    if known[tag] then
      local outer = w.stop
      w.stop = w.at + size
      value(w, known[tag], includes(known[tag].null, w.version), section, true)
      if w.at ~= w.stop then fail(w, ("tagged field %d has %d bytes more than its value"):format(tag, w.stop - w.at)) end
      w.stop = outer
    else
      local range = take(w, size)
      section:add(F.unknown_tag, range):set_text(("unknown tagged field %d: %s"):format(tag, size > 0 and range:bytes():tohex(true):sub(1, 60) or "empty"))
    end
  end
  section:set_len(w.at - start)
end

function structure(w, declared, tree)
  local plan = plan_of(declared, w.version)
  for _, field in ipairs(plan.plain) do value(w, field, includes(field.null, w.version), tree) end
  if w.flexible then tagged_fields(w, plan.tagged, tree) end
end

-- Record batches ----------------------------------------------------------------------------------------------------

local function varint(w, what) -- zigzag, up to 64 bits: as a number, and exactly as an Int64
  local low, high, bits = 0, 0, 0
  for _ = 1, 10 do
    need(w, 1, what)
    local byte = w.tvb(w.at, 1):uint()
    w.at = w.at + 1
    local group = byte % 128
    if bits < 28 then low = low + group * 2 ^ bits
    elseif bits == 28 then low, high = low + group % 16 * 2 ^ 28, math.floor(group / 16)
    else high = high + group * 2 ^ (bits - 32) end
    bits = bits + 7
    if byte < 128 then
      high = high % 4294967296
      local negative = low % 2 == 1
      low, high = math.floor(low / 2) + high % 2 * 2147483648, math.floor(high / 2)
      local number = high * 4294967296 + low
      if negative then number, low, high = -number - 1, 4294967295 - low, 4294967295 - high end
      return number, Int64.new(low, high)
    end
  end
  fail(w, what .. " is longer than 10 bytes")
end

local function blob(w, tree, field, name, is_text)
  local from = w.at
  local size = varint(w, "the length of " .. name)
  if size < 0 then
    tree:add(F.null, w.tvb(from, w.at - from), "record." .. name):set_text(name .. ": null")
  else
    need(w, size, name)
    local range = take(w, size)
    if is_text then return add_text(tree, field, range) end
    local item = tree:add(field, range)
    local text = size > 0 and size <= 200 and range:raw() or "\n"
    if not text:find("%c") and is_utf8(text) then item:append_text(" (" .. text .. ")") end
  end
end

local function read_record(w, tree, batch, index)
  local from = w.at
  local item = tree:add(F.record, w.tvb(from, 0))
  local size = varint(w, "the length of a record")
  local outer = w.stop
  if size < 1 or size > w.stop - w.at then fail(w, ("a record of %d bytes, %d are left"):format(size, w.stop - w.at)) end
  w.stop = w.at + size
  take(w, 1) -- attributes, not used so far
  local _, timestamp_delta = varint(w, "timestamp_delta")
  local _, offset_delta = varint(w, "offset_delta")
  local offset = batch.base_offset + offset_delta
  item:set_text(("record [%d]: offset %s"):format(index, tostring(offset)))
  item:add(F.offset, w.tvb(from, 0), offset):set_generated()
  item:add(F.timestamp, w.tvb(from, 0), batch.append_time and batch.max_timestamp or batch.base_timestamp + timestamp_delta):set_generated()
  blob(w, item, F.key, "key")
  blob(w, item, F.value, "value")
  local count = varint(w, "headers_count")
  if count < 0 or count > w.stop - w.at then fail(w, ("%d headers, %d bytes are left"):format(count, w.stop - w.at)) end
  for _ = 1, count do
    blob(w, item, F.header_key, "header.key", true)
    blob(w, item, F.header_value, "header.value")
  end
  if w.at ~= w.stop then fail(w, ("%d bytes are left over in a record"):format(w.stop - w.at)) end
  w.stop = outer
  item:set_len(w.at - from)
end

local function read_records(w, tree, batch, whole)
  for i = 0, batch.count - 1 do
    if w.at >= w.stop then
      if whole then fail(w, ("%d records, %d are here"):format(batch.count, i)) end
      return
    end
    read_record(w, tree, batch, i)
  end
  if w.at < w.stop then fail(w, ("%d bytes are left over behind the last record"):format(w.stop - w.at)) end
end

local function copy(out, n, distance, count) -- of bytes that were written before; they may overlap
  if distance < 1 or distance > n then error("corrupt") end
  for i = n + 1, n + count do out[i] = out[i - distance] end
  return n + count
end

local function literals(out, n, data, at, count)
  for i = 0, count - 1 do out[n + 1 + i] = data:byte(at + i) end
  return n + count, at + count
end

local function lz4_block(data, at, stop, out, n, limit)
  local function more(size)
    if size == 15 then
      repeat
        local byte = data:byte(at)
        at, size = at + 1, size + byte
      until byte < 255
    end
    return size
  end
  while at <= stop and n <= limit do
    local token = data:byte(at)
    at = at + 1
    local count = more(math.floor(token / 16))
    if at + count - 1 > stop or n + count > limit then error("corrupt") end
    n, at = literals(out, n, data, at, count)
    if at > stop then break end
    local low, high = data:byte(at, at + 1)
    at = at + 2
    count = more(token % 16) + 4
    if n + count > limit then error("too large") end
    n = copy(out, n, low + high * 256, count)
  end
  return n
end

local function number(data, at, little) -- of 4 bytes
  local a, b, c, d = data:byte(at, at + 3)
  if little then a, b, c, d = d, c, b, a end
  return a * 16777216 + b * 65536 + c * 256 + d
end

local function lz4(data, out, limit) -- a frame; its checksums are not compared
  local flags = data:byte(5)
  local at, n = 8 + (math.floor(flags / 8) % 2 == 1 and 8 or 0) + (flags % 2 == 1 and 4 or 0), 0
  while true do
    local size = number(data, at, true)
    at = at + 4
    if size == 0 then return n end
    local stop = at + size % 2147483648 - 1
    if stop > #data then error("corrupt") end
    if size < 2147483648 then n = lz4_block(data, at, stop, out, n, limit)
    elseif n + stop - at < limit then n = literals(out, n, data, at, stop - at + 1)
    else error("too large") end
    at = stop + 1 + (math.floor(flags / 16) % 2 == 1 and 4 or 0)
  end
end

local function snappy_block(data, at, stop, out, n, limit)
  repeat -- the size of the output, which is not needed
    local byte = data:byte(at)
    at = at + 1
  until byte < 128
  while at <= stop do
    local tag = data:byte(at)
    local kind, count = tag % 4, math.floor(tag / 4) + 1
    at = at + 1
    if kind == 0 and count > 60 then
      local size = 0
      for i = count - 60, 1, -1 do size = size * 256 + data:byte(at + i - 1) end
      at, count = at + count - 60, size + 1
    elseif kind == 1 then count = math.floor(tag / 4) % 8 + 4 end
    if n + count > limit or kind == 0 and at + count - 1 > stop then error("corrupt") end
    if kind == 0 then n, at = literals(out, n, data, at, count)
    elseif kind == 1 then n, at = copy(out, n, math.floor(tag / 32) * 256 + data:byte(at), count), at + 1
    elseif kind == 2 then n, at = copy(out, n, data:byte(at) + data:byte(at + 1) * 256, count), at + 2
    else n, at = copy(out, n, number(data, at, true), count), at + 4 end
  end
  return n
end

local function snappy(data, out, limit) -- as it is, or in the blocks of snappy-java
  if data:sub(1, 8) ~= "\130SNAPPY\0" then return snappy_block(data, 1, #data, out, 0, limit) end
  local at, n = 17, 0
  while at <= #data do
    local size = number(data, at)
    if at + 3 + size > #data then error("corrupt") end
    n = snappy_block(data, at + 4, at + 3 + size, out, n, limit)
    at = at + 4 + size
  end
  return n
end

local function method(name) -- of a range of bytes, if this version of Wireshark has it
  local done, found = pcall(function() return TvbRange[name] end)
  return done and found or nil
end

local GUNZIP = method("uncompress_zlib") or method("uncompress")
local UNZSTD = method("uncompress_zstd")

local function inflate(range, codec, limit) -- the decompressed bytes, or nil
  if range:len() > limit then return nil end
  local done, found = pcall(function()
    if codec == 1 or codec == 4 then
      local decompress = codec == 1 and GUNZIP or UNZSTD
      -- gzip ends with the size of what it holds
      if not decompress or codec == 1 and number(range:raw(), range:len() - 3, true) > limit then return nil end
      local inner = decompress(range, "decompressed records")
      return inner and inner:len() > 0 and inner:tvb() or nil
    end
    local decompress = codec == 2 and snappy or codec == 3 and lz4
    if not decompress then return nil end
    local out, text = {}, {}
    local n = decompress(range:raw(), out, math.min(limit, LUA_INFLATED_LIMIT))
    for at = 1, n, 4096 do text[#text + 1] = string.char(table.unpack(out, at, math.min(at + 4095, n))) end
    return ByteArray.new(table.concat(text), true):tvb("decompressed records")
  end)
  return done and found or nil
end

local function open_compressed(w, tree, batch)
  local size = w.stop - w.at
  local item = tree:add(F.compressed, w.tvb(w.at, size))
  item:set_text(("%d bytes compressed with %s"):format(size, CODECS[batch.codec] or ("codec " .. batch.codec)))
  local inner = inflate(w.tvb(w.at, size), batch.codec, INFLATED_LIMIT - w.inflated)
  if not inner then
    item:add_proto_expert_info(UNDECODED, "records are not shown: this version of Wireshark does not decompress them")
    return nil
  end
  w.inflated = w.inflated + inner:len()
  return inner
end

local function in_other_bytes(w, tvb, read) -- read with a walk over decompressed bytes
  local walk = { tvb = tvb, at = 0, stop = tvb:len(), version = w.version, left = w.left, inflated = w.inflated }
  local done, problem = pcall(read, walk)
  w.left, w.inflated = walk.left, walk.inflated
  if not done then
    if type(problem) == "table" and problem.at then problem.at = w.at end
    error(problem, 0)
  end
end

local HEADER = { "base_offset", "batch_length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
  "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count" }
local WIDTHS = { 8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4 }

local function read_batch(w, tree, size)
  local start, outer = w.at, w.stop
  local whole = size <= w.stop - w.at
  local stop = whole and start + size or w.stop
  local item = tree:add(F.set, w.tvb(start, stop - start))
  local ranges = {}
  for i, name in ipairs(HEADER) do
    if WIDTHS[i] > stop - w.at then break end
    ranges[name] = take(w, WIDTHS[i])
    local field = item:add(F[name], ranges[name])
    if name == "attributes" then
      for _, bits in ipairs({ "codec", "append_time", "transactional", "control", "delete_horizon" }) do
        field:add(F[bits], ranges[name])
      end
    end
  end
  if ranges.records_count then
    local bits = ranges.attributes:uint()
    local batch = {
      base_offset = ranges.base_offset:int64(), base_timestamp = ranges.base_timestamp:int64(),
      max_timestamp = ranges.max_timestamp:int64(), count = ranges.records_count:int(), codec = bits % 8,
      append_time = bits % 16 >= 8,
    }
    item:set_text(("record batch: offset %s, %d records, %s"):format(tostring(batch.base_offset), batch.count, CODECS[batch.codec] or "unknown codec"))
    w.stop = stop
    if batch.codec == 0 then
      local done, problem = pcall(read_records, w, item, batch, whole)
      if not done and (whole or problem.limit or not problem.text) then error(problem, 0) end
    elseif whole then
      local inner = open_compressed(w, item, batch)
      if inner then in_other_bytes(w, inner, function(walk) read_records(walk, item, batch, true) end) end
    end
  end
  if not whole then item:append_text(" (cut short; readers ignore it)") end
  w.at, w.stop = stop, outer
end

local function read_message(w, tree, size, nested) -- the formats before Kafka 0.11, magic 0 and 1
  local start, outer = w.at, w.stop
  if size > w.stop - w.at then
    tree:add(F.undecoded, w.tvb(w.at, w.stop - w.at)):set_text("message that is cut short; readers ignore it")
    w.at = w.stop
    return
  end
  w.stop = start + size
  local item = tree:add(F.set, w.tvb(start, size))
  local offset = take(w, 8)
  item:add(F.base_offset, offset)
  item:set_text("message: offset " .. tostring(offset:int64()))
  item:add(F.batch_length, take(w, 4))
  item:add(F.crc, take(w, 4))
  local magic = take(w, 1)
  item:add(F.magic, magic)
  local attributes = take(w, 1)
  local codec = attributes:uint() % 8
  item:add(F.attributes, attributes, attributes:uint()):append_text(" " .. (CODECS[codec] or "unknown codec"))
  if magic:uint() == 1 then
    need(w, 8, "timestamp")
    item:add(F.timestamp, take(w, 8))
  end
  for _, name in ipairs({ "key", "value" }) do
    need(w, 4, "the length of " .. name)
    local from, length = w.at, w.tvb(w.at, 4):int()
    w.at = w.at + 4
    if length < -1 then fail(w, ("length %d of %s"):format(length, name)) end
    if length < 0 then
      item:add(F.null, w.tvb(from, 4), "record." .. name):set_text(name .. ": null")
    else
      need(w, length, name)
      if name == "value" and codec > 0 and not nested then
        local outer_stop = w.stop
        w.stop = w.at + length
        local inner = open_compressed(w, item, { codec = codec })
        if inner then in_other_bytes(w, inner, function(walk) read_batches(walk, item, true) end) end
        w.at, w.stop = w.at + length, outer_stop
      else
        item:add(F[name], take(w, length))
      end
    end
  end
  if w.at ~= w.stop then fail(w, ("%d bytes are left over in a message"):format(w.stop - w.at)) end
  w.stop = outer
end

function read_batches(w, tree, nested)
  while w.at < w.stop do
    local left = w.stop - w.at
    if left < 17 then
      tree:add(F.undecoded, w.tvb(w.at, left)):set_text(("%d bytes of a batch that is cut short; readers ignore it"):format(left))
      w.at = w.stop
      return
    end
    local size, magic = w.tvb(w.at + 8, 4):int(), w.tvb(w.at + 16, 1):uint()
    if magic < 2 and size >= 14 then
      read_message(w, tree, size + 12, nested)
    elseif magic == 2 and size >= BATCH_HEADER - 12 then
      read_batch(w, tree, size + 12)
    else
      fail(w, ("no record batch: magic %d, length %d"):format(magic, size))
    end
  end
end

-- Frames ------------------------------------------------------------------------------------------------------------

-- State of connections; what was decided for a frame, and which packets are not Kafka's, when they were seen first.
local streams, decisions, refused

local function forget() streams, decisions, refused = {}, {}, {} end
kafka.init = forget
forget()

local function is_request(tvb, at) -- whether the bytes begin like a request, with its size prefix
  if tvb:len() - at < 12 then return false end
  local size, key, version = tvb(at, 4):int(), tvb(at + 4, 2):int(), tvb(at + 6, 2):int()
  local known = APIS[key]
  if size < 8 or size > kafka.prefs.limit or not known or version < 0 or version > known.versions[2] + 3 then return false end
  if key == CONTROLLED_SHUTDOWN and version == 0 then return size < 64 end
  if size < 10 or tvb:len() - at < 14 then return false end
  local client_id = tvb(at + 12, 2):int()
  if client_id == -1 then return true end
  if client_id < 0 or client_id > size - 10 then return false end
  local here = math.min(client_id, tvb:len() - at - 14)
  return here == 0 or not tvb(at + 14, here):raw():find("%c")
end

local function stream_key(pinfo) -- the field tcp.stream has no value while Wireshark builds no tree
  local source, target = tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
  return source < target and source .. " " .. target or target .. " " .. source, source, target
end

local function stream_of(pinfo, tvb)
  local key, source, target = stream_key(pinfo)
  local stream = streams[key]
  if not stream then
    stream = { pending = {}, in_step = {} }
    streams[key] = stream
  end
  if not stream.server and is_request(tvb, 0) then stream.server = target end
  return stream
end

local function to_server(stream, pinfo) return stream.server == tostring(pinfo.dst) .. ":" .. pinfo.dst_port end

local function place(pinfo, tvb, at) -- records of TLS in one packet have the same offset: the first bytes tell them apart
  return pinfo.number .. ":" .. tvb:offset() + at .. ":" .. tvb(at, math.min(12, tvb:len() - at)):bytes():tohex()
end

-- Decide what begins at a byte: a request, a response (with its request), a token of SASL, or nothing known.
local function decide(stream, tvb, pinfo, at)
  local left = tvb:len() - at
  local size = tvb(at, 4):int()
  if size < 0 or size > kafka.prefs.limit then return { length = left } end
  local found = { length = size + 4 }
  if to_server(stream, pinfo) then
    if is_request(tvb, at) then
      found.kind, stream.raw_tokens = "request", nil
    elseif stream.raw_tokens then
      found.kind = "token"
    elseif not stream.in_step.server or left >= 14 and size < 8 then
      return { length = left }
    else
      found.kind = "request" -- of an API or version that has no schema, or too short to say
    end
    stream.in_step.server = true
    return found
  end
  local queue = left >= 8 and size >= 4 and stream.pending[tvb(at + 4, 4):int()]
  if queue and queue[1] then
    found.kind = "response"
  elseif stream.raw_tokens then
    found.kind = "token"
  elseif not stream.in_step.client or left >= 8 and size + 4 > left then
    stream.in_step.client = nil
    return { length = left }
  else
    found.kind = "response"
  end
  stream.in_step.client = true
  return found
end

local function frame_length(tvb, pinfo, at)
  local key = place(pinfo, tvb, at)
  if not decisions[key] then decisions[key] = decide(stream_of(pinfo, tvb), tvb, pinfo, at) end
  return decisions[key].length
end

local texts -- what the column Info says

local function guarded(w, tree, read) -- report what is malformed, and show the rest of the bytes
  local done, problem = pcall(read)
  w.stop = w.tvb:len()
  if done then return true end
  if type(problem) ~= "table" then error(problem, 0) end
  w.at = math.min(problem.at, w.stop)
  if problem.limit then
    bytes_left(w, tree, ("not shown: a frame adds at most %d items"):format(ITEM_LIMIT))
  else
    report(w, tree, problem)
    bytes_left(w, tree, problem.text)
  end
  return false
end

local function body(w, tree, message, known, direction)
  local item = tree:add(F[direction], w.tvb(w.at, w.stop - w.at))
  item:set_text(("%s %s v%d"):format(known.name, direction, w.version))
  w.flexible = includes(known.flexible, w.version)
  structure(w, message, item)
  bytes_left(w, tree, "left over behind the message")
end

local function header_tags(w, tree)
  w.flexible = true
  tagged_fields(w, {}, tree)
  w.flexible = false
end

local function request(w, tree, found, stream, pinfo)
  need(w, 8, "a request header")
  local key, version = w.tvb(w.at, 2):int(), w.tvb(w.at + 2, 2):int()
  local known = APIS[key]
  tree:add(F.api_key, take(w, 2))
  tree:add(F.api_version, take(w, 2))
  local correlation_id = w.tvb(w.at, 4):int()
  tree:add(F.correlation_id, take(w, 4))
  local name = ("%s v%d"):format(known and known.name or "API " .. key, version)
  texts[#texts + 1] = ("%s request (%d)"):format(name, correlation_id)
  tree:append_text((": %s request, correlation id %d"):format(name, correlation_id))
  found.request = found.request or { key = key, version = version, frame = pinfo.number, time = pinfo.abs_ts }
  if found.request.answer then tree:add(F.response_in, w.tvb(0, 0), found.request.answer):set_generated() end
  local schema = known and includes(known.versions, version)
  guarded(w, tree, function()
    if not (key == CONTROLLED_SHUTDOWN and version == 0) then
      sized(w, { name = "client_id", type = "string", path = "client_id", field = F.client_id }, true, tree)
      if schema and includes(known.flexible, version) then header_tags(w, tree) end
    end
    if not known then return bytes_left(w, tree, ("there is no schema of API %d"):format(key)) end
    if not schema then
      return bytes_left(w, tree, ("there is no schema of %s: versions %s are known"):format(name, known.text))
    end
    w.version = version
    body(w, tree, known.request, known, "request")
  end)
  if not pinfo.visited and not found.queued and not (key == PRODUCE and w.acks == 0) then
    found.queued = true
    if key == API_VERSIONS then stream.pending = {} end -- the first request of a connection, whose ports may be used again
    local queue = stream.pending[correlation_id] or {}
    queue[#queue + 1] = found.request
    stream.pending[correlation_id] = queue
  end
end

local function response(w, tree, found, stream, pinfo)
  need(w, 4, "a response header")
  local correlation_id = w.tvb(w.at, 4):int()
  tree:add(F.correlation_id, take(w, 4))
  if not found.request and not pinfo.visited then
    local queue = stream.pending[correlation_id]
    found.request = queue and table.remove(queue, 1)
    if queue and not queue[1] then stream.pending[correlation_id] = nil end
  end
  local asked = found.request
  if not asked then
    texts[#texts + 1] = ("response (%d)"):format(correlation_id)
    tree:append_text((": response, correlation id %d"):format(correlation_id))
    return bytes_left(w, tree, "the request of this response is not in the capture")
  end
  asked.answer = pinfo.number
  local known, version = APIS[asked.key], asked.version
  local name = ("%s v%d"):format(known and known.name or "API " .. asked.key, version)
  texts[#texts + 1] = ("%s response (%d)"):format(name, correlation_id)
  tree:append_text((": %s response, correlation id %d"):format(name, correlation_id))
  tree:add(F.response_to, w.tvb(0, 0), asked.frame):set_generated()
  local passed = math.floor((pinfo.abs_ts - asked.time) * 1e6 + 0.5) -- the times are numbers of double precision
  tree:add(F.time, w.tvb(0, 0), NSTime.new(math.floor(passed / 1e6), passed % 1e6 * 1000)):set_generated()
  guarded(w, tree, function()
    -- A broker that does not have the version of ApiVersions answers in version 0 (KIP-511).
    if asked.key == API_VERSIONS and w.stop - w.at >= 2 and w.tvb(w.at, 2):int() == UNSUPPORTED_VERSION then version = 0 end
    if not known then return bytes_left(w, tree, ("there is no schema of API %d"):format(asked.key)) end
    if not includes(known.versions, version) then
      return bytes_left(w, tree, ("there is no schema of %s: versions %s are known"):format(name, known.text))
    end
    w.version = version
    if asked.key ~= API_VERSIONS and includes(known.flexible, version) then header_tags(w, tree) end
    if not pinfo.visited and asked.key == SASL_HANDSHAKE and version == 0 and w.stop - w.at >= 2 and w.tvb(w.at, 2):int() == 0 then
      stream.raw_tokens = true -- tokens without headers follow, until the client sends a request
    end
    body(w, tree, known.response, known, "response")
  end)
end

local function dissect(tvb, pinfo, tree)
  local stream = stream_of(pinfo, tvb)
  local key = place(pinfo, tvb, 0)
  local found = decisions[key]
  if not found then
    found = decide(stream, tvb, pinfo, 0)
    decisions[key] = found
  end
  local item = tree:add(kafka, tvb())
  local w = { tvb = tvb, at = 0, stop = tvb:len(), flexible = false, left = ITEM_LIMIT, inflated = 0 }
  if not found.kind then
    texts[#texts + 1] = ("%d bytes that do not begin a frame of Kafka"):format(tvb:len())
    bytes_left(w, item, "these bytes do not begin a frame of Kafka")
    return tvb:len()
  end
  guarded(w, item, function()
    local size = tvb(0, 4):int()
    item:add(F.size, take(w, 4))
    w.cut = tvb:len() < size + 4
    if w.cut then
      item:add_proto_expert_info(UNDECODED, ("the capture has %d of %d bytes"):format(tvb:len() - 4, size))
    end
    if found.kind == "request" then request(w, item, found, stream, pinfo)
    elseif found.kind == "response" then response(w, item, found, stream, pinfo)
    else
      texts[#texts + 1] = "SASL token"
      item:append_text(": SASL token")
      if size > 0 then item:add(F.sasl_token, take(w, w.stop - w.at)) end
    end
  end)
  return tvb:len()
end

-- Read a segment. Before the first request of a connection it is left to other dissectors, as that of TLS.
local function dissect_segment(tvb, pinfo, tree)
  if not pinfo.visited and not stream_of(pinfo, tvb).server then refused[pinfo.number] = true end
  if refused[pinfo.number] then return 0 end
  texts = {}
  dissect_tcp_pdus(tvb, tree, 4, frame_length, dissect)
  if #texts > 0 then
    pinfo.cols.protocol = "Kafka"
    pinfo.cols.info:set(table.concat(texts, ", ") .. " ")
    pinfo.cols.info:fence()
  end
  return tvb:len()
end

function kafka.dissector(tvb, pinfo, tree)
  local size = tvb:len() >= 4 and tvb:len() < 14 and tvb(0, 4):int()
  if size and size >= 8 and size < 65536 and pinfo.can_desegment > 0 and not stream_of(pinfo, tvb).server then
    -- Too few bytes to recognise a request: some clients send the size prefix alone.
    pinfo.desegment_offset, pinfo.desegment_len = 0, DESEGMENT_ONE_MORE_SEGMENT
    return tvb:len()
  end
  return dissect_segment(tvb, pinfo, tree)
end

local tables = { DissectorTable.get("tcp.port"), DissectorTable.get("tls.port") }
local registered = ""

local function register()
  if registered == tostring(kafka.prefs.ports) then return end
  for _, ports in ipairs(tables) do
    if registered ~= "" then ports:remove(registered, kafka) end
    if tostring(kafka.prefs.ports) ~= "" then ports:add(tostring(kafka.prefs.ports), kafka) end
  end
  registered = tostring(kafka.prefs.ports)
end
kafka.prefs_changed = register
register()

local function recognise(over_tcp)
  return function(tvb, pinfo, tree)
    if over_tcp and not is_request(tvb, 0) then return false end
    -- Not by way of kafka.dissector: a dissector in a dissector may not desegment.
    if dissect_segment(tvb, pinfo, tree) == 0 then return false end
    if over_tcp then pinfo.conversation = kafka end -- over TLS, the conversation is that of TLS
    return true
  end
end
kafka:register_heuristic("tcp", recognise(true))
kafka:register_heuristic("tls", recognise(false))
