package gauge

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Loop starts n times /bin/true from as many goroutines as the width, with os/exec and nothing around
// it: the floor that launches are compared with.
func Loop(n, width int) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, width)
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := exec.Command("/bin/true").Run(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// Xargs starts n times /bin/true with xargs, as many at once as the width.
func Xargs(ctx context.Context, n, width int) error {
	cmd := exec.CommandContext(ctx, "xargs", "-P", strconv.Itoa(width), "-n1", "/bin/true")
	var in strings.Builder
	for i := range n {
		fmt.Fprintln(&in, i)
	}
	cmd.Stdin, cmd.Stderr = strings.NewReader(in.String()), os.Stderr
	return cmd.Run()
}
