//! What a splitter hands its workers: records, and rings of them in shared memory. `docs/splitter.md` has the layout.
