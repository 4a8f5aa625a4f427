//! Cargo requires a source file. The publisher is `server.cpp`.
