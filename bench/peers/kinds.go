package peers

import (
	"context"
	"fmt"
)

// Redis starts Redis as somebody runs it who must not lose a lock: every write
// is synced before it is acknowledged. Snapshots beside the log are off.
func Redis(ctx context.Context, dir string) (*Server, error) {
	return redis("redis", "fdatasync before the answer (appendfsync always)", "--appendonly", "yes", "--appendfsync", "always").start(ctx, dir)
}

// RedisMemory starts Redis without any persistence.
func RedisMemory(ctx context.Context, dir string) (*Server, error) {
	return redis("redis-memory", "none (no persistence)", "--appendonly", "no").start(ctx, dir)
}

func redis(name, durability string, persistence ...string) command {
	return command{
		name:       name,
		durability: durability,
		version:    []string{"redis-server", "--version"},
		run: func(dir string, port, _ int) []string {
			return append([]string{
				"redis-server", "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", dir,
				"--save", "", "--daemonize", "no", "--protected-mode", "yes",
			}, persistence...)
		},
	}
}

// Etcd starts a cluster of one member: the fewest round trips that etcd can
// have.
func Etcd(ctx context.Context, dir string) (*Server, error) {
	return command{
		name:       "etcd",
		durability: "fdatasync before the answer (one member)",
		version:    []string{"etcd", "--version"},
		run: func(dir string, port, second int) []string {
			clients, members := fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", second)
			return []string{
				"etcd", "--name", "bench", "--data-dir", dir + "/data", "--logger", "zap", "--log-level", "error",
				"--listen-client-urls", clients, "--advertise-client-urls", clients,
				"--listen-peer-urls", members, "--initial-advertise-peer-urls", members,
				"--initial-cluster", "bench=" + members,
			}
		},
	}.start(ctx, dir)
}

// Tenure starts the server in binary, which takes the flags of tenure serve,
// with its defaults.
func Tenure(ctx context.Context, dir, binary string) (*Server, error) {
	return command{
		name:       "tenure",
		durability: "fdatasync before the answer",
		run: func(dir string, port, _ int) []string {
			return []string{binary, "serve", "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--data", dir + "/data"}
		},
	}.start(ctx, dir)
}
