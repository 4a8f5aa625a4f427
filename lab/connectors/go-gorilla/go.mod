module pitwire.dev/lab/go-gorilla

go 1.26.0

require (
	github.com/gorilla/websocket v1.5.3
	pitwire.dev/lab/connector v0.0.0
)

require (
	github.com/mattn/go-sqlite3 v1.14.52 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace pitwire.dev/lab/connector => ../common/go
