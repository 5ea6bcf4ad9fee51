package faultfs

import (
	"bytes"
	"maps"
	"slices"
)

// node is a file or a directory: as it is seen, as it is on the disk, and what
// lies between.
type node struct {
	dir bool

	data  []byte
	safe  []byte
	dirty map[int][][]byte // by sector: its contents since the last sync
	sizes []int            // since the last sync

	names     map[string]*node
	safeNames map[string]*node
	pending   []change // since the last sync
}

// sector is what the disk writes whole or not at all.
const sector = 512

// change is a creation (to, node), a removal (from), or a rename (all).
type change struct {
	from, to string
	node     *node
}

func newFile() *node { return &node{dirty: map[int][][]byte{}} }

func newDir() *node {
	return &node{dir: true, names: map[string]*node{}, safeNames: map[string]*node{}}
}

func (n *node) change(c change) {
	c.apply(n.names)
	n.pending = append(n.pending, c)
}

func (c change) apply(names map[string]*node) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.node
	}
}

func (n *node) write(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	n.grow(off + int64(len(p)))
	copy(n.data[off:], p)
	n.stain(int(off), int(off)+len(p))
}

// stain notes the contents of the sectors between two offsets.
func (n *node) stain(from, to int) {
	for s := from / sector; s*sector < to; s++ {
		now := make([]byte, sector)
		if s*sector < len(n.data) {
			copy(now, n.data[s*sector:])
		}
		n.dirty[s] = append(n.dirty[s], now)
	}
}

func (n *node) grow(size int64) {
	if more := int(size) - len(n.data); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
		n.sizes = append(n.sizes, len(n.data))
	}
}

func (n *node) truncate(size int64) {
	was := len(n.data)
	if was <= int(size) {
		return
	}
	n.data = slices.Clone(n.data[:size])
	n.sizes = append(n.sizes, len(n.data))
	n.stain(int(size), was)
}

// sync makes durable what is dirty, and nothing else.
func (n *node) sync() {
	n.safe = n.image(Everything)
	n.forget()
}

func (n *node) forget() {
	clear(n.dirty)
	n.sizes = nil
}

// image is the file as the disk may have it.
func (n *node) image(keep Keep) []byte {
	size := len(n.safe)
	if i := keep(len(n.sizes)); len(n.sizes) > 0 && i > 0 {
		size = n.sizes[i-1]
	}
	b := make([]byte, max(size, len(n.safe)))
	copy(b, n.safe)
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		states := n.dirty[s]
		if i := keep(len(states)); i > 0 && s*sector < len(b) {
			copy(b[s*sector:], states[i-1])
		}
	}
	return b[:size]
}

// crash is the node that a crash leaves, and all below it. Files that no name
// leads to are gone.
func (n *node) crash(keep Keep, done map[*node]*node) *node {
	if left, ok := done[n]; ok {
		return left
	}
	if !n.dir {
		left := newFile()
		done[n] = left
		left.data = n.image(keep)
		left.safe = bytes.Clone(left.data)
		return left
	}
	left := newDir()
	done[n] = left
	names := cloneNames(n.safeNames)
	for _, c := range n.pending {
		if keep(1) > 0 {
			c.apply(names)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		left.names[name] = names[name].crash(keep, done)
	}
	left.safeNames = cloneNames(left.names)
	return left
}

func cloneNames(names map[string]*node) map[string]*node { return maps.Clone(names) }
