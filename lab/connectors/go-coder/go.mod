module pitwire.dev/lab/go-coder

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	pitwire.dev/lab/connector v0.0.0
)

require (
	github.com/mattn/go-sqlite3 v1.14.52 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace pitwire.dev/lab/connector => ../common/go
