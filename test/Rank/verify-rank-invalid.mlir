// RUN: hyc-opt %s --hyc-verify-rank --split-input-file --verify-diagnostics

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    // expected-error @+1 {{has no address yet}}
    %0 = rank.alloc @a : <16xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a shared bytes 64
  rank.collective @c 0 "all_reduce" over <{tp}> cause "x" why ""
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %row = rank.row @c
    // expected-error @+1 {{is waited for 0 times, expected once}}
    %t = rank.start "all_reduce" "sum" %row, %0 count 4 : !rank.buffer<4xf32>
  }
}

// -----

hyc.func @forward.0() {
  // expected-error @+1 {{computes on tensors}}
  hyc.return
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @disk bytes 4096 {rank.file}
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @disk 0 : <4xf32>
    %1 = rank.at @a 0 : <4xf32>
    // expected-error @+1 {{uses what lies in the file @disk, which only moves reach}}
    rank.call "strided_copy" %1 = %0 : !rank.buffer<4xf32>, !rank.buffer<4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @disk bytes 8192 {rank.file}
  rank.func @forward() {
    // expected-error @+1 {{is at byte 512 of a file, expected a multiple of 4096}}
    %0 = rank.at @disk 512 : <4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %1 = rank.at @a 16 : <4xf32>
    // expected-error @+1 {{is waited for 0 times, expected once}}
    %t = rank.move "fetch" %1 = %0 : <4xf32>, <4xf32>
  }
}

// -----

rank.program @p stage 0 slots 1 {
  rank.arena @a bytes 64
  rank.func @forward() {
    %0 = rank.at @a 0 : <4xf32>
    %1 = rank.at @a 16 : <8xf32>
    // expected-error @+1 {{[move.types] copies}}
    %t = rank.move "fetch" %1 = %0 : <8xf32>, <4xf32>
  }
}
