# HYC_PORTABLE: tools and programs that need nothing of the machine that they were built on. Static libraries where there are
# any, with C++'s own; what there is only shared is installed beside hyc's libraries (HycInstall.cmake), and the programs that
# hyc-compile makes find it there (lib/Driver/Build/Toolchain.cpp).
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)
find_library(HYC_URING_LIBRARY NAMES liburing.a uring)
add_link_options(-static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,--gc-sections)
