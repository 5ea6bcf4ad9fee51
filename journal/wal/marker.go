package wal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenurehq/tenure/journal/record"
)

const (
	markerName   = "TENURE"
	lockName     = "LOCK"
	markerFormat = 1
	markerMost   = 1 << 10
)

// writeMarker says to people and programs what the directory is.
func (l *Log) writeMarker() error {
	text := fmt.Sprintf("Tenure journal. Do not edit or remove files here.\nformat: %d\ncreated: %s\n", markerFormat, l.opt.Now().UTC().Format(time.RFC3339))
	text += "check: " + check(text) + "\n"
	f, err := l.publish(filepath.Join(l.dir, markerName), func(f File) error { return writeAt(f, []byte(text), 0) }, nil)
	if err != nil {
		return err
	}
	return f.Close()
}

func check(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// readMarker refuses the marker of a newer version, and a damaged one.
func (l *Log) readMarker() error {
	name := filepath.Join(l.dir, markerName)
	b, err := readFile(l.fs, name, markerMost)
	if err != nil {
		return explain("read", name, err)
	}
	text, sum, found := strings.Cut(string(b), "check: ")
	if !found || sum != check(text)+"\n" {
		return &Damage{File: name, What: "its check line does not go with the lines above"}
	}
	var format int
	_, line, _ := strings.Cut(text, "\n")
	if _, err := fmt.Sscanf(line, "format: %d\n", &format); err != nil || format < 1 {
		return &Damage{File: name, What: "it names no format"}
	}
	if format > markerFormat {
		return newer(l.dir, fmt.Errorf("%w: journal format %d, this one reads up to %d", record.ErrVersion, format, markerFormat))
	}
	return nil
}

// readFile reads a small file whole.
func readFile(fsys FS, name string, most int64) ([]byte, error) {
	f, err := fsys.Open(name, false)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, &Damage{File: name, Offset: most, What: "it is longer than it may be"}
	}
	return b, err
}

// mkdir makes the directory and those above it. All of them are synced, those
// that were there too: who made them may not have come to it.
func mkdir(fsys FS, dir string) error {
	err := fsys.Mkdir(dir)
	up := filepath.Dir(dir)
	if errors.Is(err, fs.ErrNotExist) && up != dir {
		if err = mkdir(fsys, up); err == nil {
			err = fsys.Mkdir(dir)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// syncAbove makes the names of a directory and of all above it durable. One
// that this process may not even read is none that it made.
func syncAbove(fsys FS, dir string) error {
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		if err := fsys.SyncDir(up); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if up == filepath.Dir(up) {
			return nil
		}
	}
}
