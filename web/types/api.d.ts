/** The shapes of the API, made from /api/openapi.json by web/tests/types.mjs. Do not edit. */

export type Page = { items: (WorkflowShape)[]; next?: string | null; };

export type WorkflowShape = {
  workflowId: string;
  displayName?: string | null;
  version: number;
  enabled: boolean;
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

export type PublishedShape = { workflowId: string; version: number; created: boolean; };

export type ValidatedShape = { valid: boolean; problems: (Record<string, any>)[]; };

export type DefinitionShape = { id: string; nodes: (Record<string, any>)[]; };

export type EnabledShape = { workflowId: string; enabled: boolean; };

export type PublishingShape = { workflowId: string; version: number; created: boolean; runs: (Record<string, any>)[]; };

export type Page2 = { items: (VersionShape)[]; next?: string | null; };

export type VersionShape = { workflowId: string; version: number; digest: string; signature: string; publishedAt: string; };

export type DiffShape = {
  workflowId: string;
  from: number;
  to: number;
  nodes: Record<string, any>;
  edges: Record<string, any>;
  keys: (string)[];
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

export type StartedShape = { executionId: string; status: string; statusUrl: string; existing: boolean; };

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

export type ForkPlanShape = {
  origin: string;
  workflowId: string;
  version: number;
  graph: string;
  again: (string)[];
  reused: (string)[];
  rest: (Record<string, any>)[];
  compensated: (Record<string, any>)[];
};

export type Page3 = { items: (RunShape)[]; next?: string | null; };

export type RunShape = {
  executionId: string;
  workflowId: string;
  version: number;
  status: string;
  error?: RunItemError | null;
  requestId: string;
  tenantId?: string | null;
  priority: number;
  labels: Record<string, string>;
  parent?: string | null;
  createdAt: string;
  startedAt?: string | null;
  endedAt?: string | null;
  wakeAt?: string | null;
  asleep: boolean;
  gate?: string | null;
  gateLimit: number;
  dead: boolean;
};

export type RunItemError = { code: string; message?: string | null; };

export type ExecutionShape = {
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
  error?: RunErrorShape | null;
  compensation?: string | null;
  trigger: any;
  vars: Record<string, any>;
  output: any;
  createdAt: string;
  startedAt?: string | null;
  endedAt?: string | null;
  parent?: Record<string, any> | null;
  origin?: Record<string, any> | null;
  counts: Record<string, number>;
  nodes: Record<string, Record<string, any>>;
};

export type RunErrorShape = { code: string; message: string; nodes: (string)[]; causes: (CauseShape)[]; };

export type CauseShape = { executionId: string; node: string; code: string; message: string; };

export type FormatName = "mermaid" | "dot" | "svg" | "ascii" | "json";

export type GraphShape = { title: string; nodes: (Record<string, any>)[]; edges: (Record<string, any>)[]; };

export type WhyShape = { executionId: string; status: string; reason: string; nodes: (Record<string, any>)[]; };

export type ExportShape = { version: number; signature: string; frozenAt: string; nodes: Record<string, any>; };

export type VerifiedShape = {
  executionId: string;
  valid: boolean;
  records?: number | null;
  values?: number | null;
  hashes?: number | null;
  misfit?: Record<string, any> | null;
};

export type NodeShape = { executionId: string; node: string; status: string; attempts: number; output: any; actions: (Record<string, any>)[]; };

export type Page4 = { items: (EventShape)[]; next?: string | null; };

export type EventShape = {
  v: number;
  position: number;
  at: string;
  level: string;
  category: string;
  kind: string;
  node?: string | null;
  attempt?: number | null;
  data: Record<string, any>;
};

export type LogShape = {
  executionId: string;
  head: Record<string, any>;
  row: RunShape;
  records: (Record<string, any>)[];
  next?: number | null;
};

export type Collapse = "auto" | "none";

export type LayoutShape = {
  v: number;
  definition: string;
  title: string;
  width: number;
  height: number;
  total: number;
  kinds: (string)[];
  nodes: BoxesShape;
  edges: ArrowsShape;
  frames: (FrameShape)[];
  members: Record<string, ((number)[])[]>;
  ids?: (string)[] | null;
};

export type BoxesShape = {
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

export type ArrowsShape = {
  from: (number)[];
  to: (number)[];
  kind: (number)[];
  index: (number)[];
  label: Record<string, string>;
  via: Record<string, (number)[]>;
  members: Record<string, ((number)[])[]>;
};

export type FrameShape = { node: number; x: number; y: number; w: number; h: number; frame: number; };

export type StatusesShape = {
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
  loops: Record<string, LoopShape>;
  bodies?: Record<string, Record<string, number>> | null;
};

export type LoopShape = { items?: number | null; opened: number; running: number; failed: (number)[]; counts: Record<string, number>; };

export type OverTimeShape = { from: string; to: string; begins: (string)[]; counts: Record<string, (number)[]>; };

export type WorkflowStatisticsShape = {
  workflowId: string;
  version?: number | null;
  from: string;
  to: string;
  runs: RunFiguresShape;
  nodes: Record<string, NodeFiguresShape>;
};

export type RunFiguresShape = { examined: number; limit: number; complete: boolean; failed: number; p50Ms?: number | null; p95Ms?: number | null; };

export type NodeFiguresShape = { runs: number; failures: number; retries: number; p50Ms?: number | null; p95Ms?: number | null; };

export type CancelBody = { compensate?: boolean; reason?: string | null; dryRun?: boolean; };

export type ActedShape = {
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
  action: Action;
  filter: ListQuery;
  reason?: string | null;
  dryRun?: boolean;
  compensate?: boolean;
  nodes?: (string)[];
  node?: string | null;
  name?: string | null;
  value?: any;
};

export type Action = "cancel" | "pause" | "resume" | "reattempt" | "signal" | "set-result" | "skip" | "compensate";

export type ListQuery = {
  workflow?: string | null;
  status?: (string)[];
  label?: (string)[];
  from?: string | null;
  parent?: string | null;
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

export type Page5 = { items: (ScheduleShape)[]; next?: string | null; };

export type ScheduleShape = {
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

export type RemovedShape = { id: string; };

export type Page6 = { items: (HookShape)[]; next?: string | null; };

export type HookShape = { id: string; tenantId?: string | null; workflowId: string; createdAt: string; damage?: string | null; };

export type HookBody = { id: string; workflowId: string; };

export type HookMadeShape = {
  id: string;
  tenantId?: string | null;
  workflowId: string;
  createdAt: string;
  path: string;
  token: string;
  secret: string;
};

export type HookStartedShape = { executionId: string; existing: boolean; };

export type Page7 = { items: (LetterShape)[]; next?: string | null; };

export type LetterShape = {
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

export type LettersShape = { executionIds: (string)[]; };

export type Page8 = { items: (AuditShape)[]; next?: string | null; };

export type AuditShape = {
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

export type Page9 = { items: (SecretShape)[]; next?: string | null; };

export type SecretShape = { name: string; tenantId?: string | null; updatedAt: string; damage?: string | null; };

export type RotatedShape = { secrets: number; hooks: number; };

export type NewSecret = { name: string; value: string; };

export type SetSecretShape = { name: string; created: boolean; };

export type RemovedSecretShape = { name: string; };

export type Page10 = { items: (ActionShape)[]; next?: string | null; };

export type ActionShape = {
  name: string;
  description: string;
  parameters: any;
  output: any;
  declaredByWorkers?: boolean | null;
  lastSeenAt?: string | null;
};

export type Page11 = { items: (WorkerShape)[]; next?: string | null; };

export type WorkerShape = {
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

export type TasksShape = { tasks: (TaskShape)[]; };

export type TaskShape = {
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

export type StopShape = { stop: boolean; };

export type CompleteBody = { lease: string; output?: any; meta?: any; resources?: (ResourceBody)[]; };

export type ResourceBody = { system: string; type: string; id: string; url?: string | null; };

export type RecordedShape = { taskId: string; recorded: boolean; };

export type FailBody = { lease: string; code: string; message: string; retriable?: boolean; retryAfterMs?: number | null; details?: any; };

export type SkipBody = { lease: string; };

export type Health = { status: string; warnings?: (Detail)[]; };

export type OpenApi = { openapi: string; };
