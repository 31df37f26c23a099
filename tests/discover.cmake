# Writes OUTPUT, which tells ctest of the tests in PROGRAM:   cmake -D PROGRAM= -D PREFIX= -D OUTPUT= -D RESULTS= -D WHOLE= -P discover.cmake
#
# One ctest test is a suite, or, where a suite has parameters, all cases of one of its tests, which share what is slow to
# prepare; where WHOLE is true it is all of the program, PREFIX.all: libtorch takes a third of a second to a whole one to
# load, which a program of many short suites need not pay for each. Every test leaves its cases' results in the folder
# RESULTS, from which ./run test counts and names those that were skipped.
cmake_policy(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "[][;]" "_" listing "${listing}")
string(REPLACE "\n" ";" lines "${listing}")
set(suite "")
set(groups "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE " *#.*" "" line "${line}")
  if(line MATCHES "^([^ ]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
  elseif(suite MATCHES "/" AND line MATCHES "^  ([^/]+)/")  # the last match is the one that CMAKE_MATCH_1 tells
    list(APPEND groups "${suite}.${CMAKE_MATCH_1}/")
  elseif(line MATCHES "^  ")
    list(APPEND groups "${suite}.")
  endif()
endforeach()
list(REMOVE_DUPLICATES groups)
if(WHOLE AND groups)
  set(groups all)
endif()
set(text "")
foreach(group IN LISTS groups)
  string(REGEX REPLACE "[./]$" "" name "${PREFIX}${group}")
  string(REPLACE "/" "-" file "${name}")
  string(REGEX REPLACE "^all$" "" group "${group}")
  string(APPEND text "add_test([==[${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${group}*]==] [==[--gtest_output=xml:${RESULTS}/${file}.xml]==])
set_tests_properties([==[${name}]==] PROPERTIES TIMEOUT 1200 FAIL_REGULAR_EXPRESSION [==[Running 0 tests]==])\n")
endforeach()
if(text STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()
file(WRITE "${OUTPUT}" "${text}")
