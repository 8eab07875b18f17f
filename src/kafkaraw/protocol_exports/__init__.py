"""The protocol for other tools: a dissector for Wireshark, a Kaitai Struct format, an ImHex pattern, a JSON Schema.

All of them are generated from the declarations in `protocol`, so they have every API in every declared version. This
package must not read bytes of the protocol, and must not write files: the command line does. Start at `export`.
"""

from kafkaraw.protocol_exports.formats import FORMATS as FORMATS
from kafkaraw.protocol_exports.formats import export as export
