package operate

// Changes are what the service changes in the database.
type Changes interface{}
