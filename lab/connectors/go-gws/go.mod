module pitwire.dev/lab/go-gws

go 1.26.0

require (
	github.com/lxzan/gws v1.8.9
	pitwire.dev/lab/connector v0.0.0
)

require (
	github.com/dolthub/maphash v0.1.0 // indirect
	github.com/klauspost/compress v1.17.9 // indirect
	github.com/mattn/go-sqlite3 v1.14.52 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace pitwire.dev/lab/connector => ../common/go
