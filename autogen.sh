#!/bin/sh
# Make ./configure from configure.ac. Run once after a clone.
set -e
cd "$(dirname "$0")"
exec autoreconf --install --force --warnings=all,no-obsolete
