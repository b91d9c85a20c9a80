/** The shapes of the API, made from /api/openapi.json by web/tests/types.mjs. Do not edit. */

export type WorkflowPage = { items: (Workflow)[]; next?: string | null; };

export type Workflow = {
  workflowId: string;
  displayName?: string | null;
  version: number;
  enabled: boolean;
  description?: string | null;
  createdAt?: string | null;
  updatedAt: string;
  tenantId?: string | null;
  damage?: string | null;
};

export type ErrorBody = { error: ErrorObject; };

export type ErrorObject = { code: string; message: string; hint?: string | null; correlationId: string; timestamp: string; details: (Detail)[]; };

export type Detail = { pointer: string; message: string; };

export type Definition = {
  $schema?: string | null;
  id: string;
  displayName?: string | null;
  description?: string | null;
  tags?: (string)[];
  labels?: Record<string, string>;
  startNode?: string | null;
  triggerSchema?: any;
  vars?: Record<string, any>;
  output?: any;
  failurePolicy?: FailurePolicy;
  executionMode?: ExecutionMode;
  inFlight?: InFlight;
  compensation?: Compensation;
  timeoutMs?: number | null;
  maxParallel?: number | null;
  concurrency?: Concurrency | null;
  nodes: (Node)[];
};

export type FailurePolicy = "partial" | "failFast";

export type ExecutionMode = "parallel" | "sequential" | "levels";

export type InFlight = "pinned" | "healing";

export type Compensation = "onFailure" | "onFailureOrCancel" | "manual" | { when?: CompensationPolicy; onError?: OnCompensationError; };

export type CompensationPolicy = "onFailure" | "onFailureOrCancel" | "manual";

export type OnCompensationError = "continue" | "stop";

export type Concurrency = { key?: any; limit: number; };

export type Node = {
  id: string;
  name?: string | null;
  parameters?: any;
  policies?: Policies | null;
  edges?: (Edge)[];
  dependsOn?: (string)[];
  onFailure?: string | null;
  switch?: Switch | null;
  join?: Join | null;
  compensate?: Compensate | null;
  requires?: (string)[];
  priority?: number | null;
  pool?: NodePool | null;
  setVars?: Record<string, any> | null;
  actionType?: string | null;
  forEach?: ForEach | null;
  while?: While | null;
  retryUntil?: RetryUntil | null;
  subworkflow?: Subworkflow | null;
  waitForSignal?: WaitForSignal | null;
  delay?: Delay | null;
};

export type Policies = { timeoutMs?: number | null; retry?: Retry | null; };

export type Retry = {
  maxAttempts: number;
  strategy?: RetryStrategy;
  baseDelayMs?: number;
  backoffFactor?: number;
  maxDelayMs?: number;
  jitter?: boolean;
};

export type RetryStrategy = "exponential" | "linear" | "fixed";

export type Edge = { targetNode: string; when?: When; condition?: string | null; };

export type When = "success" | "failure" | "always";

export type Switch = { on: string; cases: Record<string, string>; default?: string | null; when?: When; };

export type Join = "all" | "any" | { atLeast: number; };

export type Compensate = { actionType: string; parameters?: any; policies?: Policies | null; };

export type NodePool = { name: string; slots?: number; };

export type ForEach = {
  items: any;
  itemName?: string | null;
  parallel?: boolean | null;
  maxConcurrency?: number | null;
  onItemFailure?: OnItemFailure;
  body: Body;
};

export type OnItemFailure = "fail" | "collect";

export type Body = { nodes: (Node)[]; startNode?: string | null; output?: any; };

export type While = { condition: string; maxIterations?: number | null; body: Body; };

export type RetryUntil = { until?: string | null; maxAttempts: number; backoff?: Backoff | null; body: Body; };

export type Backoff = {
  maxAttempts?: number | null;
  strategy?: RetryStrategy;
  baseDelayMs?: number;
  backoffFactor?: number;
  maxDelayMs?: number;
  jitter?: boolean;
};

export type Subworkflow = { workflowId: string; version?: number | null; input: any; output?: any; isolation?: Isolation; };

export type Isolation = "isolated" | "shared" | "transactional";

export type WaitForSignal = { name: string; timeoutMs?: number | null; schema?: any; };

export type Delay = { ms?: number | null; until?: any; };

export type Published = { workflowId: string; version: number; created: boolean; warnings: (DefinitionWarning)[]; };

export type DefinitionWarning = { code: string; message: string; pointer: string; suggestion?: string | null; };

export type Validated = { valid: boolean; problems: (Record<string, any>)[]; };

export type WorkflowDefinition = { id: string; nodes: (Record<string, any>)[]; };

export type Enabled = { workflowId: string; enabled: boolean; };

export type Publishing = { workflowId: string; version: number; created: boolean; runs: (Record<string, any>)[]; };

export type VersionPage = { items: (Version)[]; next?: string | null; };

export type Version = { workflowId: string; version: number; digest: string; signature: string; publishedAt: string; };

export type Diff = {
  workflowId: string;
  from: number;
  to: number;
  nodes: Record<string, any>;
  edges: Record<string, any>;
  keys: (string)[];
  values: (Record<string, any>)[];
};

export type Simulated = {
  workflowId: string;
  runs: number;
  crashes: number;
  endings: (Record<string, any>)[];
  durationMs?: Record<string, any> | null;
  neverRan: (string)[];
  conditions: (Record<string, any>)[];
  failures: (Record<string, any>)[];
  problems: (string)[];
  events?: (Record<string, any>)[] | null;
};

export type ExecuteBody = {
  requestId?: string | null;
  trigger?: any;
  priority?: number | null;
  labels?: Record<string, string> | null;
  correlationId?: string | null;
  tenantId?: string | null;
  version?: number | null;
  vars?: Record<string, any> | null;
};

export type Started = { executionId: string; status: string; statusUrl: string; existing: boolean; };

export type ForkBody = {
  from: (string)[];
  set?: Record<string, any>;
  newest?: boolean;
  version?: number | null;
  reuseCompensated?: boolean;
  requestId?: string | null;
  reason?: string | null;
  dryRun?: boolean;
};

export type ForkPlan = {
  origin: string;
  workflowId: string;
  version: number;
  graph: string;
  again: (string)[];
  reused: (string)[];
  rest: (Record<string, any>)[];
  compensated: (Record<string, any>)[];
};

export type ExecutionItemPage = { items: (ExecutionItem)[]; next?: string | null; };

export type ExecutionItem = {
  executionId: string;
  workflowId: string;
  version: number;
  status: string;
  error?: ExecutionItemError | null;
  requestId: string;
  tenantId?: string | null;
  priority: number;
  labels: Record<string, string>;
  parent?: string | null;
  createdAt: string;
  startedAt?: string | null;
  endedAt?: string | null;
  updatedAt?: string | null;
  origin?: string | null;
  state?: RunState;
  waitsFor?: string | null;
  children?: number;
  forkedAs?: (string)[];
  wakeAt?: string | null;
  asleep: boolean;
  gate?: string | null;
  gateLimit: number;
  dead: boolean;
  causeCodes?: (string)[];
};

export type ExecutionItemError = { code: string; message?: string | null; };

export type RunState = "queued" | "running" | "waiting" | "paused" | "orphaned" | "deadLettered" | "succeeded" | "failed" | "cancelled";

export type Execution = {
  executionId: string;
  workflowId: string;
  version: number;
  graph: string;
  requestId: string;
  tenantId?: string | null;
  correlationId: string;
  priority: number;
  labels: Record<string, string>;
  status: string;
  error?: ExecutionError | null;
  compensation?: string | null;
  trigger: any;
  vars: Record<string, any>;
  output: any;
  createdAt: string;
  startedAt?: string | null;
  endedAt?: string | null;
  updatedAt?: string | null;
  parent?: Record<string, any> | null;
  origin?: Record<string, any> | null;
  counts: Record<string, number>;
  nodes: Record<string, Record<string, any>>;
};

export type ExecutionError = { code: string; message: string; nodes: (string)[]; causes: (Cause)[]; };

export type Cause = { executionId: string; node: string; path?: (string)[] | null; name?: string | null; code: string; message: string; };

export type FormatName = "mermaid" | "dot" | "svg" | "ascii" | "json";

export type Graph = { title: string; nodes: (Record<string, any>)[]; edges: (Record<string, any>)[]; };

export type Why = { executionId: string; status: string; reason: string; nodes: (Record<string, any>)[]; };

export type ExportedGraph = { version: number; signature: string; frozenAt: string; nodes: Record<string, any>; };

export type Verified = {
  executionId: string;
  valid: boolean;
  records?: number | null;
  values?: number | null;
  hashes?: number | null;
  misfit?: Record<string, any> | null;
};

export type NodeInstance = {
  executionId: string;
  node: string;
  status: string;
  name?: string | null;
  attempts: number;
  input: any;
  output: any;
  durationMs?: number | null;
  actions: (Record<string, any>)[];
};

export type EventPage = { items: (Event)[]; next?: string | null; };

export type Event = {
  v: number;
  position: number;
  at: string;
  level: string;
  category: string;
  kind: string;
  node?: string | null;
  name?: string | null;
  attempt?: number | null;
  data: Record<string, any>;
};

export type ExecutionLog = {
  executionId: string;
  head: Record<string, any>;
  row: ExecutionItem;
  records: (Record<string, any>)[];
  next?: number | null;
};

export type Collapse = "auto" | "none";

export type Layout = {
  v: number;
  definition: string;
  title: string;
  width: number;
  height: number;
  total: number;
  kinds: (string)[];
  nodes: Boxes;
  edges: Arrows;
  frames: (Frame)[];
  members: Record<string, ((number)[])[]>;
  ids?: (string)[] | null;
};

export type Boxes = {
  id: (string)[];
  label: (string)[];
  detail: (string)[];
  kind: (number)[];
  index: (number)[];
  count: (number)[];
  x: (number)[];
  y: (number)[];
  w: (number)[];
  h: (number)[];
  frame: (number)[];
};

export type Arrows = {
  from: (number)[];
  to: (number)[];
  kind: (number)[];
  index: (number)[];
  label: Record<string, string>;
  via: Record<string, (number)[]>;
  members: Record<string, ((number)[])[]>;
};

export type Frame = { node: number; x: number; y: number; w: number; h: number; frame: number; };

export type Statuses = {
  v: number;
  executionId: string;
  definition: string;
  version: number;
  sequence: number;
  status: string;
  createdAt: string;
  counts: Record<string, number>;
  nodes: string;
  edges: string;
  started: (number)[];
  took: (number)[];
  attempts: Record<string, number>;
  loops: Record<string, Loop>;
  bodies?: Record<string, Record<string, number>> | null;
};

export type Loop = {
  items?: number | null;
  opened: number;
  running: number;
  failed: (number)[];
  failedCount: number;
  counts: Record<string, number>;
};

export type OverTime = { from: string; to: string; begins: (string)[]; counts: Record<string, (number)[]>; };

export type WorkflowStatistics = {
  workflowId: string;
  version?: number | null;
  from: string;
  to: string;
  runs: RunFigures;
  nodes: Record<string, NodeFigures>;
};

export type RunFigures = { examined: number; limit: number; complete: boolean; failed: number; p50Ms?: number | null; p95Ms?: number | null; };

export type NodeFigures = { runs: number; failures: number; retries: number; p50Ms?: number | null; p95Ms?: number | null; };

export type CancelBody = { compensate?: boolean; reason?: string | null; dryRun?: boolean; };

export type Acted = {
  executionId: string;
  workflowId: string;
  status: string;
  would?: string | null;
  again?: (string)[] | null;
  undone?: (string)[] | null;
};

export type Hand = { reason?: string | null; dryRun?: boolean; };

export type NodesBody = { nodes?: (string)[]; reason?: string | null; dryRun?: boolean; };

export type SignalBody = { name: string; payload?: any; reason?: string | null; dryRun?: boolean; };

export type ResultBody = { node: string; output: any; reason?: string | null; dryRun?: boolean; };

export type NodeBody = { node: string; reason?: string | null; dryRun?: boolean; };

export type CompensateBody = { retry?: (string)[]; skip?: (string)[]; reason?: string | null; dryRun?: boolean; };

export type BulkBody = {
  action: DeclaredAction;
  filter: ListQuery;
  reason?: string | null;
  dryRun?: boolean;
  compensate?: boolean;
  nodes?: (string)[];
  node?: string | null;
  name?: string | null;
  value?: any;
};

export type DeclaredAction = "cancel" | "pause" | "resume" | "reattempt" | "signal" | "set-result" | "skip" | "compensate";

export type ListQuery = {
  workflow?: string | null;
  version?: number | null;
  status?: (string)[];
  label?: (string)[];
  from?: string | null;
  parent?: string | null;
  origin?: string | null;
  error?: string | null;
  waiting?: boolean;
  dead?: boolean;
  orphaned?: boolean;
  unresolved?: boolean;
  children?: boolean | null;
  prefix?: (string)[];
  cursor?: string | null;
  before?: string | null;
  limit?: number | null;
};

export type JobState = {
  id: string;
  action: string;
  dryRun: boolean;
  status: string;
  seen: number;
  done: number;
  failed: number;
  failures: (JobFailure)[];
  createdAt: string;
  endedAt?: string | null;
};

export type JobFailure = { executionId: string; code: string; message: string; };

export type PoolPage = { items: (Pool)[]; next?: string | null; };

export type Pool = {
  name: string;
  tenantId?: string | null;
  slots: number;
  used: number;
  waiting: number;
  updatedAt: string;
  holders: (PoolAttempt)[];
  waiters: (PoolAttempt)[];
};

export type PoolAttempt = { executionId: string; node: string; attempt: number; slots: number; priority: number; since: string; };

export type NamedPool = { name: string; slots: number; };

export type SetPool = { name: string; slots: number; created: boolean; };

export type PoolSize = { slots: number; };

export type RemovedPool = { name: string; };

export type SchedulePage = { items: (Schedule)[]; next?: string | null; };

export type Schedule = {
  id: string;
  tenantId?: string | null;
  workflowId: string;
  cron?: string | null;
  everyMs?: number | null;
  timezone: string;
  trigger: any;
  labels: Record<string, any>;
  priority: number;
  enabled: boolean;
  catchUp: string;
  overlap: string;
  changedAt: string;
  nextAt?: string | null;
  lastAt?: string | null;
  lastExecutionId?: string | null;
  lastError?: string | null;
  damage?: string | null;
  times?: (string)[] | null;
};

export type ScheduleBody = {
  id: string;
  workflowId: string;
  cron?: string | null;
  everyMs?: number | null;
  timezone?: string | null;
  trigger?: any;
  labels?: Record<string, string>;
  priority?: number | null;
  enabled?: boolean | null;
  catchUp?: string | null;
  overlap?: string | null;
};

export type Removed = { id: string; };

export type HookPage = { items: (Hook)[]; next?: string | null; };

export type Hook = { id: string; tenantId?: string | null; workflowId: string; createdAt: string; damage?: string | null; };

export type HookBody = { id: string; workflowId: string; };

export type NewHook = {
  id: string;
  tenantId?: string | null;
  workflowId: string;
  createdAt: string;
  path: string;
  token: string;
  secret: string;
};

export type HookStarted = { executionId: string; existing: boolean; };

export type DeadLetterPage = { items: (DeadLetter)[]; next?: string | null; };

export type DeadLetter = {
  executionId: string;
  workflowId: string;
  tenantId?: string | null;
  reason: string;
  deliveries: number;
  at: string;
  payload: any;
  damage?: string | null;
};

export type Which = { executionId?: (string)[]; all?: boolean; };

export type DeadLetters = { executionIds: (string)[]; };

export type AuditPage = { items: (Audit)[]; next?: string | null; };

export type Audit = {
  number: number;
  at: string;
  tenantId?: string | null;
  by: string;
  from: string;
  what: string;
  target: string;
  detail: any;
  damage?: string | null;
};

export type SecretPage = { items: (Secret)[]; next?: string | null; };

export type Secret = { name: string; tenantId?: string | null; updatedAt: string; damage?: string | null; };

export type Rotated = { secrets: number; hooks: number; };

export type NewSecret = { name: string; value: string; };

export type SetSecret = { name: string; created: boolean; };

export type RemovedSecret = { name: string; };

export type ActionPage = { items: (Action)[]; next?: string | null; };

export type Action = {
  name: string;
  description: string;
  parameters: any;
  output: any;
  declaredByWorkers?: boolean | null;
  lastSeenAt?: string | null;
};

export type WorkerPage = { items: (Worker)[]; next?: string | null; };

export type Worker = {
  worker: string;
  tenantId?: string | null;
  actions: (string)[];
  labels: (string)[];
  since: string;
  lastPollAt?: string | null;
  waiting: boolean;
  tasks: number;
};

export type PollBody = {
  protocol: number;
  worker: string;
  actions: (ActionBody)[];
  labels?: (string)[];
  slots?: number | null;
  waitMs?: number | null;
  holding?: (string)[] | null;
};

export type ActionBody = { actionType: string; parametersSchema?: any; description?: string | null; };

export type Tasks = { tasks: (Task)[]; };

export type Task = {
  taskId: string;
  lease: string;
  executionId: string;
  workflowId: string;
  version: number;
  node: string;
  attempt: number;
  actionType: string;
  parameters: any;
  idempotencyKey: string;
  timeoutMs: number;
  deadline: string;
  heartbeatMs: number;
  traceparent?: string | null;
};

export type HeartbeatBody = { lease: string; details?: any; };

export type HeartbeatAnswer = { stop: boolean; };

export type CompleteBody = { lease: string; output?: any; meta?: any; resources?: (ResourceBody)[]; };

export type ResourceBody = { system: string; type: string; id: string; url?: string | null; };

export type Recorded = { taskId: string; recorded: boolean; };

export type FailBody = { lease: string; code: string; message: string; retriable?: boolean; retryAfterMs?: number | null; details?: any; };

export type SkipBody = { lease: string; };

export type Cluster = { sessions: (ClusterSession)[]; partitions: (Partition)[]; queue: (Queue)[]; projectorLagMs: number; };

export type ClusterSession = {
  id: string;
  name: string;
  host: string;
  roles: (string)[];
  labels: (string)[];
  slots: number;
  version: string;
  since: string;
  expires?: string | null;
  partitions: number;
  self: boolean;
};

export type Partition = { partition: number; owner?: string | null; };

export type Queue = { actionType: string; requires: (string)[]; waiting: number; leased: number; };

export type Health = { status: string; warnings?: (Detail)[]; };

export type OpenApi = { openapi: string; };
