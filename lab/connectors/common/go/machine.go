package connector

import (
	"bufio"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockStart ties time.Since, which makes no system call, to CLOCK_MONOTONIC.
var clockStart, clockStartNs = startClock()

func startClock() (time.Time, int64) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Now(), ts.Nano()
}

func monotonicNs() int64 { return clockStartNs + int64(time.Since(clockStart)) }

// libraryVersion returns the version that the build used, without its v.
func libraryVersion(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return "unknown"
}

func peakMemoryKb() string {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return "0"
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			return strings.Fields(rest)[0]
		}
	}
	return "0"
}
