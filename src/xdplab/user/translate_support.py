"""What translated programs with checks share: the search for an address, and noting a fault."""

from __future__ import annotations

from xdplab.user.abi import UserFrag, UserFrame, UserState
from xdplab.user.translate_ir import FRAME, STACK_BYTES

FRAMES = 64
"""Calls that may be open at once. Linux allows 8; callbacks and 33 tail calls come on top."""

REGIONS = "regions"
"""The symbol of the table of memory that any program of an object may use: a u64 count, then the
REGION_WORDS words of each region, which are u64:
  low, high     its first byte, and behind its last one
  writable      whether it may be written
  stride        how far apart values are, 0 where the whole region may be used
  cpu_stride    how far apart the CPUs' copies of a value are, 0 for one copy
  value_bytes   size of a value; what lies between values is the map's own"""

REGION_WORDS = 6

MAPS = "maps"
"""The symbol of the table of maps: a u64 count, then the addresses of struct user_map."""

FAULTED = "faulted"
"""The symbol of a u32 that is set where this program had a fault: with tail calls, which one."""

MAY_READ = "may_read"
"""The symbol of what helpers ask that read where a program's values point."""

_STATE_FIELDS = (
    ("fault", "i32", "kind"),
    ("fault_insn", "i32", "slot"),
    ("fault_address", "i64", "address"),
    ("fault_bytes", "i64", "bytes"),
    ("fault_low", "i64", "low"),
    ("fault_high", "i64", "high"),
)


def support() -> str:
    """Definitions that checked and counted programs refer to."""
    return "\n".join(
        (
            f"@stack = internal global [{FRAMES * STACK_BYTES} x i8] zeroinitializer, align 16",
            "@depth = internal global i32 0",
            f"@{REGIONS} = external global i8",
            f"@{MAPS} = external global i8",
            f"@{FAULTED} = external global i32",
            _fault(),
            _INSIDE,
            _OFFSET_IN_VALUE,
            _search(),
            _MAY_READ,
            _IS_MAP,
            _IS_DYNPTR,
        )
    )


def _fault() -> str:
    """The first fault of a packet is the one that counts: later ones follow from it."""
    stores = "\n".join(
        f"  %to.{field} = getelementptr i8, ptr %state, i64 {getattr(UserState, field).offset}\n"
        f"  store {kind} %{name}, ptr %to.{field}"
        for field, kind, name in _STATE_FIELDS
    )
    offset = UserState.fault.offset
    return f"""\
define internal void @fault(ptr %state, i32 %given, i32 %slot, i64 %address, i64 %bytes, \
i64 %low, i64 %high) nounwind noinline cold {{
  %is.null = icmp ult i64 %address, 4096
  %is.address = icmp ult i32 %given, 8
  %is.null.address = and i1 %is.null, %is.address
  %kind = select i1 %is.null.address, i32 6, i32 %given
  %at = getelementptr i8, ptr %state, i64 {offset}
  %before = load i32, ptr %at
  %first = icmp eq i32 %before, 0
  br i1 %first, label %note, label %out
note:
{stores}
  store i32 1, ptr @{FAULTED}
  br label %out
out:
  ret void
}}"""


# Written so that no sum can wrap around: an address near 2**64 is outside.
_INSIDE = """\
define internal i1 @inside(i64 %address, i64 %bytes, i64 %low, i64 %high) nounwind alwaysinline {
  %ahead = sub i64 %address, %low
  %span = sub i64 %high, %low
  %starts = icmp ult i64 %ahead, %span
  %left = sub i64 %span, %ahead
  %ends = icmp ule i64 %bytes, %left
  %fits = and i1 %starts, %ends
  ret i1 %fits
}"""


# As the runtime's may_read_fn.
_MAY_READ = f"""\
define internal i64 @{MAY_READ}(ptr %frame, i64 %address, i64 %bytes) nounwind noinline {{
  %found = call i1 @search(ptr %frame, i64 %address, i64 %bytes, i1 false)
  %word = zext i1 %found to i64
  ret i64 %word
}}"""


_IS_MAP = f"""\
define internal i1 @is_map(i64 %address) nounwind noinline {{
  %count = load i64, ptr @{MAPS}
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i.next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %no
one:
  %i.next = add i64 %i, 1
  %at = getelementptr i64, ptr @{MAPS}, i64 %i.next
  %map = load i64, ptr %at
  %same = icmp eq i64 %map, %address
  br i1 %same, label %yes, label %next
yes:
  ret i1 true
no:
  ret i1 false
}}"""


# A dynptr is on the program's stack, where an unsound program may write what it likes: it must be
# null, of the present frame, or of memory that may be used, a ring buffer's header in front.
_IS_DYNPTR = """\
define internal i1 @is_dynptr(ptr %frame, i64 %address) nounwind noinline {
  %dynptr = inttoptr i64 %address to ptr
  %data = load i64, ptr %dynptr, align 1
  %size.at = getelementptr i8, ptr %dynptr, i64 8
  %word = load i32, ptr %size.at, align 1
  %offset.at = getelementptr i8, ptr %dynptr, i64 12
  %offset = load i32, ptr %offset.at, align 1
  %is.null = icmp eq i64 %data, 0
  br i1 %is.null, label %yes, label %kinds
kinds:
  %type.and.access = lshr i32 %word, 28
  %type = and i32 %type.and.access, 7
  %is.xdp = icmp eq i32 %type, 4
  br i1 %is.xdp, label %xdp, label %memory
xdp:
  %frame.address = ptrtoint ptr %frame to i64
  %same = icmp eq i64 %data, %frame.address
  ret i1 %same
memory:
  %is.ring = icmp eq i32 %type, 2
  %header = select i1 %is.ring, i64 8, i64 0
  %low = sub i64 %data, %header
  %size = and i32 %word, 16777215
  %size.wide = zext i32 %size to i64
  %offset.wide = zext i32 %offset to i64
  %ahead = add i64 %header, %offset.wide
  %bytes = add i64 %ahead, %size.wide
  %found = call i1 @search(ptr %frame, i64 %low, i64 %bytes, i1 false)
  ret i1 %found
yes:
  ret i1 true
}"""


def _packet_bounds() -> str:
    # Where there can be no metadata, data_meta lies behind data.
    lines = [
        f"  %at.{name} = getelementptr i8, ptr %frame, i64 {getattr(UserFrame, name).offset}\n"
        f"  %{name} = load i64, ptr %at.{name}, {FRAME}"
        for name in ("data", "data_meta", "data_end")
    ]
    return "\n".join(lines)


# A hash map's per-CPU copies lie within its stride, those of an array apart from one another.
_OFFSET_IN_VALUE = """\
define internal i64 @offset_in_value(i64 %ahead, i64 %stride, i64 %cpu.stride) nounwind noinline {
  %whole = icmp eq i64 %stride, 0
  br i1 %whole, label %start, label %strided
start:
  ret i64 0
strided:
  %in.entry = urem i64 %ahead, %stride
  %one.copy = icmp eq i64 %cpu.stride, 0
  br i1 %one.copy, label %entry, label %copies
entry:
  ret i64 %in.entry
copies:
  %in.copy = urem i64 %in.entry, %cpu.stride
  ret i64 %in.copy
}"""


def _search() -> str:
    frags, count = UserFrame.frags.offset, UserFrame.frag_count.offset
    return f"""\
define internal i1 @search(ptr %frame, i64 %address, i64 %bytes, i1 %writes) nounwind noinline {{
{_packet_bounds()}
  %low = call i64 @llvm.umin.i64(i64 %data, i64 %data_meta)
  %packet = call i1 @inside(i64 %address, i64 %bytes, i64 %low, i64 %data_end)
  br i1 %packet, label %yes, label %stacks
stacks:
  %stack.low = ptrtoint ptr @stack to i64
  %stack.high = add i64 %stack.low, {FRAMES * STACK_BYTES}
  %in.stack = call i1 @inside(i64 %address, i64 %bytes, i64 %stack.low, i64 %stack.high)
  br i1 %in.stack, label %yes, label %frags
frags:
  %at.count = getelementptr i8, ptr %frame, i64 {count}
  %frag.count = load i32, ptr %at.count
  br label %next.frag
next.frag:
  %f = phi i32 [ 0, %frags ], [ %f.next, %frag ]
  %more.frags = icmp ult i32 %f, %frag.count
  br i1 %more.frags, label %frag, label %regions.start
frag:
  %f.wide = zext i32 %f to i64
  %f.offset = mul i64 %f.wide, {UserFrag.bytes.offset + 8}
  %f.at = add i64 %f.offset, {frags}
  %frag.at = getelementptr i8, ptr %frame, i64 %f.at
  %frag.low = load i64, ptr %frag.at
  %frag.size.at = getelementptr i8, ptr %frag.at, i64 {UserFrag.bytes.offset}
  %frag.size = load i32, ptr %frag.size.at
  %frag.size.wide = zext i32 %frag.size to i64
  %frag.high = add i64 %frag.low, %frag.size.wide
  %in.frag = call i1 @inside(i64 %address, i64 %bytes, i64 %frag.low, i64 %frag.high)
  %f.next = add i32 %f, 1
  br i1 %in.frag, label %yes, label %next.frag
regions.start:
  %region.count = load i64, ptr @{REGIONS}
  br label %next.region
next.region:
  %r = phi i64 [ 0, %regions.start ], [ %r.next, %region ]
  %more.regions = icmp ult i64 %r, %region.count
  br i1 %more.regions, label %region, label %no
region:
  %r.bytes = mul i64 %r, {8 * REGION_WORDS}
  %r.offset = add i64 %r.bytes, 8
  %region.at = getelementptr i8, ptr @{REGIONS}, i64 %r.offset
  %region.low = load i64, ptr %region.at
  %region.high.at = getelementptr i8, ptr %region.at, i64 8
  %region.high = load i64, ptr %region.high.at
  %r.next = add i64 %r, 1
  %in.region = call i1 @inside(i64 %address, i64 %bytes, i64 %region.low, i64 %region.high)
  br i1 %in.region, label %value, label %next.region
value:
  %writable.at = getelementptr i8, ptr %region.at, i64 16
  %writable.word = load i64, ptr %writable.at
  %writable = icmp ne i64 %writable.word, 0
  %reads = xor i1 %writes, true
  %allowed = or i1 %reads, %writable
  %stride.at = getelementptr i8, ptr %region.at, i64 24
  %stride = load i64, ptr %stride.at
  %cpu.stride.at = getelementptr i8, ptr %region.at, i64 32
  %cpu.stride = load i64, ptr %cpu.stride.at
  %value.bytes.at = getelementptr i8, ptr %region.at, i64 40
  %value.bytes = load i64, ptr %value.bytes.at
  %ahead = sub i64 %address, %region.low
  %offset = call i64 @offset_in_value(i64 %ahead, i64 %stride, i64 %cpu.stride)
  %end = add i64 %offset, %bytes
  %ends = icmp ule i64 %end, %value.bytes
  %whole = icmp eq i64 %stride, 0
  %fits = or i1 %whole, %ends
  %found = and i1 %fits, %allowed
  ret i1 %found
yes:
  ret i1 true
no:
  ret i1 false
}}"""
