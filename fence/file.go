package fence

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tenurehq/tenure"
)

// ErrDamaged is matched by the error for a mark that cannot be read back as it
// was written, or is below one that this process has itself written: nothing
// passes until somebody who knows better repairs it.
var ErrDamaged = errors.New("fence: damaged mark")

// File is a store in a directory of a local file system, which it creates if
// its parent exists. Any number of processes of one host may share it. Marks are synced
// before they count, so they survive a crash of the machine.
//
// It holds one directory for each resource, in it "mark" (the highest token),
// and "turn" and "running", which are locked while a request is judged and while
// it runs. To delete them is to forget what was seen; while processes are running
// under it, each that has itself let a higher token pass than it then finds says
// [ErrDamaged] until it is started again.
func File(dir string) (Store, error) {
	if err := canLock(); err != nil {
		return nil, err
	}
	f := &file{dir: dir, sure: map[tenure.Resource]tenure.Token{}, sync: (*os.File).Sync}
	created, err := makeDir(dir)
	if err == nil && created {
		err = f.syncDir(filepath.Dir(dir))
	}
	if err == nil {
		err = f.syncDir(dir)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

type file struct {
	dir  string
	sync func(*os.File) error // a test fails it

	mu sync.Mutex
	// sure are the marks that this process has itself seen synced. One that it
	// merely finds may be another's that never reached the disk, and is written
	// again before it counts.
	sure map[tenure.Resource]tenure.Token
}

// maxSure bounds that memory; to forget costs a sync, nothing else.
const maxSure = 100_000

func (f *file) Do(ctx context.Context, r tenure.Resource, token tenure.Token, fn func(context.Context) error) error {
	if err := validate(r, token); err != nil {
		return err
	}
	running, err := f.enter(ctx, r, token)
	if err != nil {
		return err
	}
	defer running.Close() // unlocks it, too
	return fn(ctx)
}

// enter returns the locked "running" file. The lock is shared by all that runs
// under one token; the file says under which.
func (f *file) enter(ctx context.Context, r tenure.Resource, token tenure.Token) (*os.File, error) {
	dir := filepath.Join(f.dir, dirName(r))
	if _, err := makeDir(dir); err != nil {
		return nil, err
	}
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		running, err := f.try(dir, r, token)
		if running != nil || err != nil {
			return running, err
		}
		if !sleep(ctx, pause) {
			return nil, busy(ctx, r, token)
		}
	}
}

// try judges the token, and returns nothing if it is not its turn yet.
func (f *file) try(dir string, r tenure.Resource, token tenure.Token) (*os.File, error) {
	turn, err := open(dir, "turn")
	if err != nil {
		return nil, err
	}
	defer turn.Close() // which unlocks it
	if mine, err := lock(turn, exclusive); !mine {
		return nil, err
	}
	if err := f.raise(dir, r, token); err != nil {
		return nil, err
	}
	running, err := open(dir, "running")
	if err != nil {
		return nil, err
	}
	admitted, err := admit(running, token)
	if !admitted || err != nil {
		return nil, errors.Join(err, running.Close())
	}
	return running, nil
}

func open(dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	return f, nil
}

// admit joins what is running under the token, or begins if nothing is. Nobody
// else does so at the same time, since that takes the turn.
func admit(running *os.File, token tenure.Token) (bool, error) {
	alone, err := lock(running, exclusive)
	if err != nil {
		return false, err
	}
	if alone {
		if err := errors.Join(running.Truncate(0), writeAt(running, token.String())); err != nil {
			return false, fmt.Errorf("fence: %w", err)
		}
		return lock(running, shared)
	}
	now, err := io.ReadAll(io.LimitReader(running, maxMark))
	if err != nil {
		return false, fmt.Errorf("fence: %w", err)
	}
	if string(now) != token.String() {
		return false, nil
	}
	return lock(running, shared)
}

func writeAt(w io.WriterAt, s string) error {
	_, err := w.WriteAt([]byte(s), 0)
	return err
}

// raise refuses a token that is too low, and makes a higher one durable.
func (f *file) raise(dir string, r tenure.Resource, token tenure.Token) error {
	path := filepath.Join(dir, "mark")
	highest, err := readMark(path, r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	sure := f.sure[r]
	f.mu.Unlock()
	if !highest.IsZero() && highest.Compare(sure) < 0 {
		return fmt.Errorf("%w: %s says %s, but this process has seen %s for %s: an older file was put back, so the highest token seen is not known and nothing passes: restore the newer one, or remove it if no stale holder can be left", ErrDamaged, path, highest, sure, r)
	}
	if token.Compare(highest) < 0 {
		return stale(r, token, highest)
	}
	if token == highest && token == sure {
		return nil
	}
	if err := f.writeMark(dir, path, r, token); err != nil {
		return err
	}
	if sure.IsZero() { // the resource may be new: a mark in a directory that is lost is lost
		if err := f.syncDir(f.dir); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sure) >= maxSure {
		clear(f.sure)
	}
	f.sure[r] = token
	return nil
}

const (
	markVersion = "tenure-fence 1"
	maxMark     = 8 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// formatMark is one line: version, token, resource as quoted by Go, checksum.
func formatMark(r tenure.Resource, token tenure.Token) string {
	body := fmt.Sprintf("%s %s %q", markVersion, token, string(r))
	return fmt.Sprintf("%s %08x\n", body, crc32.Checksum([]byte(body), castagnoli))
}

// readMark returns the zero token where there is no mark.
func readMark(path string, r tenure.Resource) (tenure.Token, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return tenure.Token{}, nil
	}
	if err != nil {
		return tenure.Token{}, fmt.Errorf("fence: %w", err)
	}
	text, _ := strings.CutPrefix(string(b), markVersion+" ")
	field, _, _ := strings.Cut(text, " ")
	token, err := tenure.ParseToken(field)
	// What was written for this resource and this token is one text only.
	if err != nil || string(b) != formatMark(r, token) {
		return tenure.Token{}, fmt.Errorf("%w: %s is not as this version writes it, so the highest token seen for %s is not known and nothing passes: restore the file, or remove it if no stale holder can be left", ErrDamaged, path, r)
	}
	return token, nil
}

func (f *file) writeMark(dir, path string, r tenure.Resource, token tenure.Token) error {
	next, err := os.OpenFile(path+".next", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	_, err = next.WriteString(formatMark(r, token))
	if err == nil {
		err = f.sync(next)
	}
	if err := errors.Join(err, next.Close()); err != nil {
		return fmt.Errorf("fence: write %s: %w", path, err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	return f.syncDir(dir)
}

func makeDir(dir string) (created bool, err error) {
	err = os.Mkdir(dir, 0o700)
	if err == nil {
		return true, nil
	}
	if at, errAt := os.Stat(dir); errAt == nil && at.IsDir() {
		return false, nil
	}
	return false, fmt.Errorf("fence: %w", err)
}

func (f *file) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	if err := errors.Join(f.sync(d), d.Close()); err != nil {
		return fmt.Errorf("fence: sync %s: %w", dir, err)
	}
	return nil
}

// dirName is one path element for each resource, different even where the file
// system takes upper and lower case for the same: small letters, digits, '.',
// '_' and '-' stand for themselves, other bytes for two hexadecimal digits. The
// slash makes every such name contain a '%', so none is like that of a long one.
func dirName(r tenure.Resource) string {
	var b strings.Builder
	for i := range len(r) {
		c := r[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02x", c)
	}
	if b.Len() <= 200 {
		return b.String()
	}
	return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(r)))
}

// sleep reports whether the pause was slept to its end.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
