// widths.cuh - the widths that wgmma has for 16-bit operands: SPC_OF_WIDTH(N, R, P0, P1, .. P18) for each, of N columns, R = N / 2 sums of a thread and the
// numbers of the operands behind them: R, R + 1, ...
//
// SPC_WIDTHS(n): whether a kernel has a use for n columns.  All that is not left out is read by the compiler, in each kernel anew.  For includers
// that have defined SPC_OF_WIDTH; it is not defined behind.
#ifndef SPC_WIDTHS
#define SPC_WIDTHS(n) 1
#endif
#if SPC_WIDTHS(8)
SPC_OF_WIDTH(8, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
#endif
#if SPC_WIDTHS(16)
SPC_OF_WIDTH(16, 8, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26)
#endif
#if SPC_WIDTHS(32)
SPC_OF_WIDTH(32, 16, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34)
#endif
#if SPC_WIDTHS(48)
SPC_OF_WIDTH(48, 24, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42)
#endif
#if SPC_WIDTHS(64)
SPC_OF_WIDTH(64, 32, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50)
#endif
#if SPC_WIDTHS(80)
SPC_OF_WIDTH(80, 40, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58)
#endif
#if SPC_WIDTHS(96)
SPC_OF_WIDTH(96, 48, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66)
#endif
#if SPC_WIDTHS(112)
SPC_OF_WIDTH(112, 56, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74)
#endif
#if SPC_WIDTHS(128)
SPC_OF_WIDTH(128, 64, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82)
#endif
#if SPC_WIDTHS(144)
SPC_OF_WIDTH(144, 72, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90)
#endif
#if SPC_WIDTHS(160)
SPC_OF_WIDTH(160, 80, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98)
#endif
#if SPC_WIDTHS(176)
SPC_OF_WIDTH(176, 88, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106)
#endif
#if SPC_WIDTHS(192)
SPC_OF_WIDTH(192, 96, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114)
#endif
#if SPC_WIDTHS(208)
SPC_OF_WIDTH(208, 104, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122)
#endif
#if SPC_WIDTHS(224)
SPC_OF_WIDTH(224, 112, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130)
#endif
#if SPC_WIDTHS(240)
SPC_OF_WIDTH(240, 120, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138)
#endif
#if SPC_WIDTHS(256)
SPC_OF_WIDTH(256, 128, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146)
#endif
#undef SPC_OF_WIDTH
