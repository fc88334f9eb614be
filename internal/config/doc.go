// Package config says what a relay process is told to do: one typed struct, and one loader for everything it can be told by.
//
// A setting has one name everywhere: poll-interval in the file, --poll-interval on the command line, OUTBOX_POLL_INTERVAL in the
// environment, OUTBOX_SOURCE_ORDERS__POLL_INTERVAL for the source orders alone. Who wins, from the top:
//
//	flag                                  a person says so for this run
//	variable of the source                OUTBOX_SOURCE_ORDERS__POLL_INTERVAL
//	the source's entry in the file        sources: - name: orders
//	variable                              OUTBOX_POLL_INTERVAL, and usual names such as KAFKA_BROKERS
//	top of the file                       for all sources
//	default
//
// What is said of one source wins over a variable for all of them: KAFKA_BROKERS left behind in a shell must not send a source's events to another
// cluster. Each line above is a layer. Its values are read and checked when it is made, so that a wrong one is reported once, with its place, whether
// or not another layer wins over it. koanf then lays the layers over each other and fills the struct.
package config
