package keeper_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/tenurehq/tenure/internal/clock"
	"github.com/tenurehq/tenure/internal/keeper"
)

// A program that calls Start begins its main function with
//
//	if keeper.IsKeeper(os.Args) {
//		os.Exit(keeper.Main(os.Args))
//	}
func Example() {
	now := clock.Boot().Now()
	child, err := keeper.Start(context.Background(), keeper.Command{
		Args:   []string{"sh", "-c", "echo working; exit 3"},
		Stdout: os.Stdout,
	}, now+10*time.Second, now+12*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	// After every renewal of the lease:
	if err := child.Extend(now+20*time.Second, now+22*time.Second); err != nil {
		fmt.Println(err)
	}
	exit, err := child.Wait()
	fmt.Println(exit, err)
	// Output:
	// working
	// exit code 3, by itself <nil>
}
