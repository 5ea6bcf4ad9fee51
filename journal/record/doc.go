// Package record is the codec of the journal's records. Every log keeps the
// same bytes, and the codec is the frame at the same time: a record carries its
// own length, its checksum, and the checksum of the record before it.
//
// # Layout
//
// All integers are little-endian.
//
//	offset  size  field
//	     0     4  magic: 9E 54 4E 52
//	     4     1  format version, 1
//	     5     1  kind: 1 commands, 2 jump, 3 seal
//	     6     2  rules: version of the law that judged the commands
//	     8     2  shard
//	    10     2  zero
//	    12     4  length of the body, at most 64 MiB
//	    16     8  first LSN
//	    24     8  last LSN; first - 1 if the record uses none
//	    32     8  slot, in milliseconds
//	    40     8  wall clock, unix milliseconds, signed
//	    48    16  sum of the record before; zero in the first record of a log
//	    64    16  sum: SHA-256, cut to 16 bytes, of bytes 0 to 63 and the body
//	    80     n  body
//
// The body of a jump is the LSN that was last before it (8 bytes), the length
// of the reason (2 bytes), and the reason. The body of a seal is empty. The
// body of a commands record belongs to package journal.
//
// # Assumptions and limitations
//
//   - Magic, version, body length and sum keep their place and meaning in every
//     later format, so a record of a newer format is known as such ([ErrVersion])
//     only if it verifies; anything else is damage ([ErrCorrupt]).
//   - The sum finds damage, it does not keep out an attacker: whoever can write
//     to the log can write a record that verifies.
//   - A body may contain anything, the bytes of a whole record included. Where
//     records begin is therefore for the log to say, not for a search for the
//     magic: journal/wal puts a random tag before each.
//   - A record proves everything before it, nothing behind it. That the last
//     record is the last is proved by a seal only.
package record
