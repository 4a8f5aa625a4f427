module pitwire.dev/lab/connector

go 1.26.0

require (
	github.com/mattn/go-sqlite3 v1.14.52
	golang.org/x/sys v0.49.0
)
