// Package devpg runs a throw-away PostgreSQL server, for tests, benchmarks and trying things out. It uses the server programs that it
// finds on the machine, and fetches them when there are none.
//
// A server never outlives the process that started it, not even one that was killed: a watchdog, a shell that reads a pipe from this
// process, stops the server and removes its folder when the pipe closes. Folders that are left after all, because the watchdog was killed
// too, are removed by the next [Start]: each live folder holds a lock file that its process keeps locked.
//
//	this process ──pipe: pid of the server──▶ watchdog (sh)
//	      │                                       │ on end of file: kill -QUIT pid, rm -rf folder
//	      └──────── child ────▶ postgres ◀────────┘
package devpg
