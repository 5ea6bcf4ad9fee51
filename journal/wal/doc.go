// Package wal keeps a journal in a directory of one machine. What it
// acknowledges is synced; what it opens is verified, all of it.
//
// # Files
//
//	TENURE        what the directory is: text, with the format's version
//	LOCK          locked by the process that has the journal open; its pid
//	log-N         the records, file after file; N is 1, 2, 3 … in 20 digits
//	snap-LSN      a snapshot of the state at that LSN, in 20 digits
//	….tmp         not finished; removed by the next open
//
// All integers are little-endian. A log file begins with a header:
//
//	offset  size  field
//	     0     8  magic: 9E 54 4E 52 4C 4F 47 0A
//	     8     8  format, 1
//	    16     8  number of the file
//	    24     8  last LSN of the file before
//	    32     8  slot of the last record before
//	    40    16  sum of the last record before
//	    56    16  tag: random, of this file
//	    72     8  offset at which a tail was cut; 0 if none was
//	    80     8  bytes that were cut there
//	    88     8  size the file was made with
//	    96    16  SHA-256, cut to 16 bytes, of bytes 0 to 95
//	   112        the records, each behind the tag: tag (16), record; see
//	              journal/record. Then zeros, up to the size.
//
// A snapshot:
//
//	 0     8  magic: 9E 54 4E 52 53 4E 50 0A
//	 8     8  format, 1
//	16     8  LSN
//	24    16  SHA-256, cut to 16 bytes, of bytes 0 to 23
//	40        chunks: length (4), 1 to 65536 bytes, sum (16); and the end:
//	          length 0 (4), length of all chunks together (8), sum (16).
//	          A sum is SHA-256, cut to 16 bytes, of the sum before (of the
//	          header at first), the length, and the bytes.
//
// # Durability
//
//   - An append is one write and one data sync, into a file whose space was
//     reserved and whose header and name were synced before. One record is on
//     its way at a time. After a failed write or sync the log is dead; a failed
//     sync is never repeated.
//   - A file gets its name when it is whole and synced, and is used when the
//     name is synced.
//   - A file that was not left behind by a synced seal is written again when it
//     is opened: its records may have been read from memory only, and a sync
//     that failed once may succeed the second time without having done
//     anything. The new file is synced, read back and verified, and takes the
//     name of the old one. A file of which the seal was synced is known by its
//     size: it ends with the seal, others have room behind the last record.
//   - Files are trimmed one at a time, the oldest first, each gone for good
//     before the next.
//
// # What is cut, and what is refused
//
// Where no record verifies, and something other than zeros follows, either a
// crash interrupted the last append, or something damaged the file. As only one
// record is on its way at a time, anything that shows that a later one was begun
// shows that the one here was complete, and that the open has to be refused:
// a later file; the file's tag anywhere behind this place; bytes behind the
// length that a whole header gives; a seal before this place; a file that is
// shorter than it was made. Everything else is the incomplete record, which is
// cut and reported ([Report]). That the cut was made is noted in the file, and
// reported again until a record stands in its place.
//
// Bodies contain what clients want, the bytes of valid records too, and a torn
// one may begin anywhere. So it is not records that are searched for behind the
// end, but the tag: no client can know it, and it is nowhere else in the file.
//
// # Assumptions and limitations
//
//   - The disk writes sectors of 512 bytes whole or not at all, and a sync that
//     succeeds tells the truth, the first time.
//   - Rename replaces a file in one step; a directory can be synced, and a sync
//     that failed leaves its names to be synced again.
//   - Damage to the very last record of a log without a seal cannot be told from
//     an interrupted append: it is cut, and reported.
//   - Removing the oldest files, or bringing back an old copy of the whole
//     directory, cannot be seen here.
//   - The lock is the operating system's lock of an open file: it does not keep
//     out other machines on a network file system that does not pass it on.
package wal
