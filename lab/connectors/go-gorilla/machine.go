package main

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

func libraryVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if strings.HasSuffix(module.Path, "gorilla/websocket") {
			return strings.TrimPrefix(module.Version, "v")
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
