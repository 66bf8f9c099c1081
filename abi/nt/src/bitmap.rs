//! Run-time library: bitmaps.

use crate::base::BOOLEAN;

#[repr(C)]
pub struct RTL_BITMAP {
    /// Bits.
    pub SizeOfBitMap: u32,
    pub Buffer: *mut u32,
}
layout!(RTL_BITMAP, 0x10, Buffer @ 8);

image! {
    /// Makes a bitmap of a buffer, whose bits stay as they are.
    fn RtlInitializeBitMap(BitMapHeader: *mut RTL_BITMAP, BitMapBuffer: *mut u32, SizeOfBitMap: u32) where irql <= HIGH_LEVEL;
    /// Clears every bit.
    fn RtlClearAllBits(BitMapHeader: *mut RTL_BITMAP) where irql <= HIGH_LEVEL;
    /// Sets every bit.
    fn RtlSetAllBits(BitMapHeader: *mut RTL_BITMAP) where irql <= HIGH_LEVEL;
    /// Clears a bit.
    fn RtlClearBit(BitMapHeader: *mut RTL_BITMAP, BitNumber: u32) where irql <= HIGH_LEVEL;
    /// Sets a bit.
    fn RtlSetBit(BitMapHeader: *mut RTL_BITMAP, BitNumber: u32) where irql <= HIGH_LEVEL;
    /// Whether a bit is set.
    fn RtlTestBit(BitMapHeader: *mut RTL_BITMAP, BitNumber: u32) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Clears a run of bits.
    fn RtlClearBits(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, NumberToClear: u32) where irql <= HIGH_LEVEL;
    /// Sets a run of bits.
    fn RtlSetBits(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, NumberToSet: u32) where irql <= HIGH_LEVEL;
    /// Whether a run of bits is clear.
    fn RtlAreBitsClear(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, Length: u32) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Whether a run of bits is set.
    fn RtlAreBitsSet(BitMapHeader: *mut RTL_BITMAP, StartingIndex: u32, Length: u32) -> BOOLEAN where irql <= HIGH_LEVEL;
    /// Number of bits that are set.
    fn RtlNumberOfSetBits(BitMapHeader: *mut RTL_BITMAP) -> u32 where irql <= HIGH_LEVEL;
    /// Number of bits that are clear.
    fn RtlNumberOfClearBits(BitMapHeader: *mut RTL_BITMAP) -> u32 where irql <= HIGH_LEVEL;
    /// Start of a run of clear bits, looked for from the hint on and then from the start; -1 if there is none.
    fn RtlFindClearBits(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 where irql <= HIGH_LEVEL;
    /// Start of a run of set bits; -1 if there is none.
    fn RtlFindSetBits(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 where irql <= HIGH_LEVEL;
    /// Finds a run of clear bits and sets them; -1 if there is none.
    fn RtlFindClearBitsAndSet(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 where irql <= HIGH_LEVEL;
    /// Finds a run of set bits and clears them; -1 if there is none.
    fn RtlFindSetBitsAndClear(BitMapHeader: *mut RTL_BITMAP, NumberToFind: u32, HintIndex: u32) -> u32 where irql <= HIGH_LEVEL;
}
