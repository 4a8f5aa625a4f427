//! A hint to the processor to load a cache line.

/// Prefetches the cache line that holds `address`. Any address is allowed, valid or not.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction is a hint. It reads nothing for the program and cannot fault,
    // whatever the address is. SSE is part of every x86-64 processor.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast())
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
