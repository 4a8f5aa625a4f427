#!/bin/sh
# Builds build/publisher from server.cpp and the C++ sources that the crate libuwebsockets-sys
# bundles.
set -eu

cargo vendor -q --locked build/vendor > build/cargo-config.toml
sources=build/vendor/libuwebsockets-sys/uWebSockets
sockets=$sources/uSockets/src
for source in "$sockets"/*.c "$sockets"/eventing/epoll_kqueue.c; do
  cc -O3 -DLIBUS_NO_SSL -I "$sockets" -c "$source" -o "build/$(basename "$source" .c).o"
done
c++ -O3 -std=c++20 -DLIBUS_NO_SSL -DUWS_NO_ZLIB -pthread -I "$sources/src" -I "$sockets" \
  server.cpp build/*.o -o build/publisher
rm -r build/vendor
